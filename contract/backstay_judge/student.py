"""Student's t distribution for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4), and its quantile."""

import math
from statistics import NormalDist

NORMAL_FROM = 400
"""Degrees of freedom from which the normal distribution differs by less than 1 % in the quantiles used here."""


def quantile(probability: float, degrees: int) -> float:
    """The t with P(T <= t) = probability, for probability in [0.5, 1) and degrees >= 1."""
    if not 0.5 <= probability < 1 or degrees < 1:
        raise ValueError(f"no quantile of t at probability {probability} with {degrees} degrees of freedom")
    if degrees >= NORMAL_FROM:
        return NormalDist().inv_cdf(probability)
    low, high = 0.0, 1.0
    while _cdf(high, degrees) < probability:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _cdf(middle, degrees) < probability else (low, middle)
    return high


def _cdf(t: float, degrees: int) -> float:
    """P(T <= t) for t >= 0."""
    angle = math.atan2(t, math.sqrt(degrees))
    square = math.cos(angle) ** 2
    odd = degrees % 2
    term, total = (math.cos(angle), math.cos(angle)) if odd else (1.0, 1.0)
    if degrees == 1:
        total = 0.0
    for i in range(3 if odd else 2, degrees - 1, 2):
        term *= square * (i - 1) / i
        total += term
    between = 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
    return 0.5 + between / 2
