"""When waiting sequences may join those that run. Pure."""

from enum import StrEnum

FILL_SECONDS = 0.05
"""How long `dynamic` waits for a batch to fill."""


class Batching(StrEnum):
    """How sequences are put together."""

    CONTINUOUS = "continuous"
    """A sequence joins before any step in which there is room."""
    DYNAMIC = "dynamic"
    """A batch begins when it is full or its first has waited 50 ms, and is finished before the next begins."""
    STATIC = "static"
    """A batch is whatever waits when the one before it has ended."""

    def joins_after(self, *, running: int, waiting: int, most: int, waited: float) -> float | None:
        """Seconds until waiting sequences may join: 0 at once; None not before the running ones have ended."""
        if self is Batching.CONTINUOUS:
            return 0.0
        if running:
            return None
        if self is Batching.STATIC or waiting >= most:
            return 0.0
        return max(0.0, FILL_SECONDS - waited)
