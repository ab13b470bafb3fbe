"""One file on its way: which of its bytes are on disk, and which pieces are still to be hashed."""

import threading
from collections import deque

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
    """A file, the object it comes from, and how far it is."""

    def __init__(self, file: ModelFile, facts: Facts, have: Extents) -> None:
        self.file = file
        self.facts = facts
        self.have = have.total
        """Bytes from an earlier process, which may have lost them with the power."""
        self.whole = False
        """All bytes are there and their digest is the manifest's."""
        self._on_disk = have
        self._unhashed: deque[Interval] = deque()
        """Pieces that were begun, in the file's order."""
        self._changed = self._closed = False
        self._condition = threading.Condition()

    @property
    def changed(self) -> bool:
        """The object was replaced while it was read."""
        return self._changed

    def pieces(self, most: int) -> list[Interval]:
        """The requests that are to be made."""
        return pieces(self._on_disk.missing(self.file.size), most)

    def begin(self, piece: Interval) -> bool:
        """A piece will be asked for, the pieces in their order. False when nobody waits for it any more."""
        with self._condition:
            if not self._closed:
                self._unhashed.append(piece)
            return not self._closed

    def written(self, start: int, end: int) -> None:
        """The bytes [start, end) are on disk."""
        with self._condition:
            self._on_disk = self._on_disk.with_(start, end)
            self._condition.notify_all()

    def replaced(self) -> None:
        """The object is another one by now."""
        with self._condition:
            self._changed = True
            self._condition.notify_all()

    def on_disk_beyond(self, at: int, stop: Stop) -> int:
        """The end of the bytes that follow `at` on disk, as soon as there are any.

        Raises StoppedError when they will not come.
        """
        with self._condition:
            while (end := self._on_disk.reach(at)) == at:
                if self._changed or stop():
                    raise StoppedError
                self._condition.wait(0.2)  # the stop has no way to notify
            return end

    def hashed(self, at: int) -> int:
        """Everything below `at` is hashed. Returns how many pieces that ends."""
        with self._condition:
            before = len(self._unhashed)
            while self._unhashed and self._unhashed[0].end <= at:
                self._unhashed.popleft()
            return before - len(self._unhashed)

    def close(self) -> int:
        """Nobody waits any more. Returns how many pieces were begun in vain."""
        with self._condition:
            self._closed = True
            vain = len(self._unhashed)
            self._unhashed.clear()
            return vain
