"""Memory for pieces between the network and the hash: a few buffers, used again and again.

Fresh memory for each piece would cost as much as copying it: the kernel clears every page before it hands it out.
"""

import queue
from collections.abc import Callable


class Buffers:
    """At most `count` buffers of `size` bytes, each made when it is first needed."""

    def __init__(self, count: int, size: int) -> None:
        self._size = size
        self._free: queue.LifoQueue[bytearray | None] = queue.LifoQueue()
        for _ in range(count):
            self._free.put(None)

    def take(self, stopped: Callable[[], bool]) -> bytearray | None:
        """A buffer, as soon as one is free; None when the work was stopped."""
        while not stopped():
            try:
                found = self._free.get(timeout=0.2)
            except queue.Empty:
                continue
            return bytearray(self._size) if found is None else found
        return None

    def give(self, buffer: bytearray) -> None:
        """A buffer is not needed any more."""
        self._free.put(buffer)
