"""How much more windows differ than independent requests would: Pearson's chi-squared over its degrees of freedom."""


def dispersion(windows: int, n: int, k: int, square_sum: float) -> float:
    """phi of closed windows with n requests, k beyond the limit, and square_sum = sum of k_w² / n_w.

    About 1 for independent requests, m when they come in equal clumps of m. It is 1 where it cannot be estimated: fewer
    than two windows, or all requests on the same side of the limit.
    """
    if windows < 2 or k in (0, n):
        return 1.0
    mean = k / n
    excess = max(0.0, square_sum - k * mean)
    return excess / (mean * (1 - mean) * (windows - 1))
