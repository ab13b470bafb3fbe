"""The betting e-process on window fractions: what counts when the requests of a window share their load.

X_w is the fraction of a window's requests beyond the limit. Whoever bets lambda on "more than p0" has the wealth

    prod over w of (1 + lambda (X_w - p0)),   0 <= lambda < 1/p0,

a non-negative supermartingale whenever each X_w has a mean of at most p0 given the past, however the requests inside a
window depend on each other. The judge splits its stake evenly over fixed bets and lets each run. That is one bettor
with a predictable lambda, the wealth-weighted mean of the bets so far (Cover's portfolio), and it never has to guess
when a regression begins: after a long good spell the small bets still have their stake.

Sources: Ville 1939; Waudby-Smith and Ramdas, arXiv 2010.09686 (section 4, and their diversified bets); Cover 1991.
"""

import math

from backstay_judge.sequential import log_mean_exp

BETS = (0.01, 0.03, 0.1, 0.25, 0.5)
"""The bets as shares of the largest possible lambda, 1/p0; 0.5 loses at most half its wealth in one window."""


def begin() -> tuple[float, ...]:
    """The natural log of each bet's wealth before the first window."""
    return (0.0,) * len(BETS)


def resume(log_wealth: tuple[float, ...]) -> tuple[float, ...]:
    """The log wealth as it was kept; a new beginning if it was kept by a version with other bets."""
    return log_wealth if len(log_wealth) == len(BETS) else begin()


def bet_on_window(log_wealth: tuple[float, ...], n: int, k: int, p0: float) -> tuple[float, ...]:
    """The log wealth after a window with n >= 1 requests, k of them beyond the limit."""
    if not 0 <= k <= n or n < 1:
        raise ValueError(f"k: {k} of n: {n} requests is no window")
    excess = k / n - p0
    return tuple(
        wealth + math.log1p(share / p0 * excess) for wealth, share in zip(resume(log_wealth), BETS, strict=True)
    )


def log_e(log_wealth: tuple[float, ...]) -> float:
    """Natural log of the e-value against "windows have at most p0 beyond the limit on average"."""
    return log_mean_exp(resume(log_wealth))
