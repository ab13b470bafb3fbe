"""Bucket edges of the runtime's histograms: a log grid, and edges exactly at each limit and its multiples."""

from collections.abc import Iterable

MULTIPLES = (1.0, 1.5, 2.0, 3.0, 5.0)
SMALLEST_SECONDS = 1e-9
"""Edges are rounded to this; a smaller limit would be an edge at 0."""
LARGEST_SECONDS = 1e12
GRID_SECONDS = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0,
)  # fmt: skip


def bucket_edges(limits_seconds: Iterable[float], grid: Iterable[float] = GRID_SECONDS) -> tuple[float, ...]:
    """Ascending, distinct edges in seconds (without +Inf).

    An edge at the limit itself makes "how many were slower than the limit" an exact count, where interpolating
    inside a bucket would be a guess.
    """
    edges = set(grid)
    for limit in limits_seconds:
        if not SMALLEST_SECONDS <= limit <= LARGEST_SECONDS:
            raise ValueError(
                f"a limit of {limit} s has no bucket edge: "
                f"it must lie between {SMALLEST_SECONDS} and {LARGEST_SECONDS} s"
            )
        edges.update(round(limit * multiple, 9) for multiple in MULTIPLES)
    return tuple(sorted(edges))
