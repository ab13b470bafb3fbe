"""How far the network may be ahead of the hash.

Pieces that are not hashed yet lie in the page cache. Many of them would be written out and dropped from there, where a
container's memory is small, and come back from the disk.
"""

import threading
from collections.abc import Callable


class Slots:
    """At most `count` are taken at the same time."""

    def __init__(self, count: int) -> None:
        self._free = threading.Semaphore(count)

    def take(self, stopped: Callable[[], bool]) -> bool:
        """One slot, as soon as it is free; False when the work was stopped."""
        while not stopped():
            if self._free.acquire(timeout=0.2):
                return True
        return False

    def give(self, count: int) -> None:
        """So many are free again."""
        if count:
            self._free.release(count)
