"""The sequential test on counts: an e-process that may be looked at after every request.

With n requests of which k are beyond the limit, and p0 the allowed fraction,

    E = mean over j of (p_j / p0)^k ((1 - p_j) / (1 - p0))^(n - k),   p_j > p0.

For every true fraction p <= p0 each term is a non-negative supermartingale that starts at 1, hence so is the mean, and
by Ville's inequality P(E ever reaches 1/alpha) <= alpha however often one looks. The reverse mixture (q < p0) is the
same for p >= p0 and decides Pass. The state is n and k, so a restart or another chunking of the looks changes nothing.

Sources: Ville 1939; Wald 1945 (sequential probability ratio test); Howard, Ramdas, McAuliffe, Sekhon, arXiv 1810.08240;
Lindon and Malek, arXiv 2011.03567; Lindon, Sanden, Shirikian, KDD 2022, arXiv 2205.14762.
"""

import math
from collections.abc import Iterable, Sequence

WORSE = (1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0, 89.0)
"""Alternatives as multiples of p0: from just beyond the limit to nearly every request."""
BETTER = (0.1, 0.2, 0.5)
MAX_FRACTION = 0.95
"""No alternative is above it: at 1, a single request within the limit would end the test for good."""


def worse_fractions(p0: float) -> tuple[float, ...]:
    """The alternatives p_j beyond p0; empty if p0 leaves no room (then nothing can be a Breach)."""
    fractions = tuple(p0 * multiple for multiple in WORSE if p0 * multiple <= MAX_FRACTION)
    return fractions or ((MAX_FRACTION,) if p0 < MAX_FRACTION else ())


def log_e_beyond(n: int, k: int, p0: float) -> float:
    """Natural log of the e-value against "at most p0 are beyond the limit"; 0 without evidence."""
    return _log_mixture(n, k, p0, worse_fractions(p0))


def log_e_within(n: int, k: int, p0: float) -> float:
    """Natural log of the e-value against "p0 or more are beyond the limit"; 0 without evidence.

    Above MAX_FRACTION the test is against MAX_FRACTION, which refutes p0 all the more.
    """
    bound = min(p0, MAX_FRACTION)
    return _log_mixture(n, k, bound, [bound * fraction for fraction in BETTER])


def clean_requests_for_pass(p0: float, alpha: float) -> int:
    """Requests, none of them beyond the limit, after which the e-value for Pass reaches 1/alpha."""
    need = -math.log(alpha)
    high = 1
    while log_e_within(high, 0, p0) < need:
        high *= 2
    low = high // 2
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if log_e_within(middle, 0, p0) >= need else (middle, high)
    return high


def log_mean_exp(logs: Iterable[float]) -> float:
    """ln of the mean of exp(logs), without overflow."""
    values = list(logs)
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values) / len(values))


def _log_mixture(n: int, k: int, p0: float, fractions: Sequence[float]) -> float:
    if not 0 <= k <= n:
        raise ValueError(f"k: {k} of n: {n} requests cannot be beyond the limit")
    if not fractions:
        return 0.0
    return log_mean_exp(k * math.log(p / p0) + (n - k) * math.log((1 - p) / (1 - p0)) for p in fractions)
