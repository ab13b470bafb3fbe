"""Wilson's score interval of a proportion: for reading, not for deciding (it is not valid when one looks often)."""

import math
from statistics import NormalDist


def wilson(n: int, k: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of k/n; (0, 1) without requests. Source: Wilson, JASA 22 (1927) 209."""
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    estimate = k / n
    scale = 1 + z * z / n
    centre = (estimate + z * z / (2 * n)) / scale
    half = z * math.sqrt(estimate * (1 - estimate) / n + z * z / (4 * n * n)) / scale
    # At the ends the interval touches 0 or 1 exactly; rounding must not move it off the estimate.
    low = 0.0 if k == 0 else min(max(0.0, centre - half), estimate)
    high = 1.0 if k == n else max(min(1.0, centre + half), estimate)
    return low, high
