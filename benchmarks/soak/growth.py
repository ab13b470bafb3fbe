"""Whether a process grows, from readings of its memory. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SETTLED = 0.4
"""Share of the requests after which caches and arenas have their size."""
LARGEST_GROWTH = 0.02
"""Of the settled size, over the rest of the run: what allocators waver by without anything being kept."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What the readings say."""

    settled_mb: float
    bytes_per_request: float
    """The slope after the settling, by Theil and Sen: the median of all pairs' slopes; one outlier does not move it."""
    share: float
    """The slope over the rest of the run, as a share of the settled size."""

    @property
    def flat(self) -> bool:
        """Whether nothing is kept."""
        return self.share <= LARGEST_GROWTH


def growth(readings: Sequence[tuple[int, int]]) -> Growth:
    """Readings are (requests so far, bytes). Raises ValueError for fewer than two after the settling."""
    settled = [one for one in readings if one[0] >= SETTLED * readings[-1][0]] if readings else []
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for place, earlier in enumerate(settled)
        for later in settled[place + 1 :]
        if later[0] > earlier[0]
    ]
    if not slopes:
        raise ValueError(f"{len(readings)} readings are too few to see a slope: make the run longer")
    slope, size = statistics.median(slopes), settled[0][1]
    return Growth(size / 1e6, slope, slope * (settled[-1][0] - settled[0][0]) / size)
