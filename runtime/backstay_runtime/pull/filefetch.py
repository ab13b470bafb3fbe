"""One file on its way: the bytes that are there, and who waits for them."""

import threading

from backstay_contract.manifest import ModelFile

from backstay_runtime.pull.extents import Extents, Interval, pieces
from backstay_runtime.pull.storage import Facts


class StoppedError(Exception):
    """Another thread failed, or the object was replaced: this work is void."""


class Stop:
    """The shared end of all threads of a download; the first error is the one that is told."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self.error: Exception | None = None

    def __call__(self) -> bool:
        return self._event.is_set()

    def fail(self, error: Exception) -> None:
        with self._lock:
            self.error = self.error or error
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Sleeps, but not beyond the stop."""
        self._event.wait(seconds)


class FileFetch:
    """A file, the object it comes from, and which of its bytes are on disk.

    Invariant: `extents` only grows, and only with bytes that were written before.
    """

    def __init__(self, file: ModelFile, facts: Facts, have: Extents) -> None:
        self.file = file
        self.facts = facts
        self.have = have.total
        """Bytes from an earlier process, which may have lost them with the power."""
        self.whole = False
        """All bytes are there and their digest is the manifest's."""
        self._extents = have
        self._changed = False
        self._condition = threading.Condition()

    @property
    def changed(self) -> bool:
        """The object was replaced while it was read."""
        return self._changed

    def pieces(self, most: int) -> list[Interval]:
        """The requests that are still to be made."""
        return pieces(self._extents.missing(self.file.size), most)

    def wrote(self, start: int, end: int) -> None:
        """The bytes [start, end) are on disk."""
        with self._condition:
            self._extents = self._extents.with_(start, end)
            self._condition.notify_all()

    def replaced(self) -> None:
        """The object is another one by now."""
        with self._condition:
            self._changed = True
            self._condition.notify_all()

    def wait_beyond(self, at: int, stop: Stop) -> int:
        """The offset up to which all bytes are there, as soon as it is beyond `at` or the file's end.

        Raises StoppedError when that will not come.
        """
        with self._condition:
            while True:
                if self._changed or stop():
                    raise StoppedError
                frontier = self._extents.frontier
                if frontier > at or frontier >= self.file.size:
                    return frontier
                self._condition.wait(0.2)  # the stop has no way to notify
