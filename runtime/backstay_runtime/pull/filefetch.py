"""One file on its way: what is on disk from an earlier try, and the pieces that come."""

import threading
from typing import NamedTuple

from backstay_contract.manifest import ModelFile

from backstay_runtime.pull.extents import Extents, Interval, pieces
from backstay_runtime.pull.storage import Facts


class Piece(NamedTuple):
    """A piece's bytes: the first `length` of a buffer."""

    buffer: bytearray
    length: int


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
    """A file, the object it comes from, and its pieces that wait to be hashed."""

    def __init__(self, file: ModelFile, facts: Facts, have: Extents) -> None:
        self.file = file
        self.facts = facts
        self.have = have.total
        """Bytes from an earlier process, which may have lost them with the power."""
        self.whole = False
        """All bytes are there and their digest is the manifest's."""
        self._on_disk = have
        self._arrived: dict[int, Piece] = {}
        self._changed = self._closed = False
        self._condition = threading.Condition()

    @property
    def changed(self) -> bool:
        """The object was replaced while it was read."""
        return self._changed

    def pieces(self, most: int) -> list[Interval]:
        """The requests that are to be made."""
        return pieces(self._on_disk.missing(self.file.size), most)

    def on_disk_until(self, at: int) -> int:
        """The end of the bytes from `at` on that an earlier process wrote; `at` itself where there are none."""
        return next((end for start, end in self._on_disk if start <= at < end), at)

    def arrived(self, start: int, piece: Piece) -> bool:
        """A piece is there. False when nobody waits for it any more."""
        with self._condition:
            if self._closed:
                return False
            self._arrived[start] = piece
            self._condition.notify_all()
            return True

    def replaced(self) -> None:
        """The object is another one by now."""
        with self._condition:
            self._changed = True
            self._condition.notify_all()

    def take(self, start: int, stop: Stop) -> Piece:
        """The piece that begins at `start`, as soon as it is there. Raises StoppedError when it will not come."""
        with self._condition:
            while start not in self._arrived:
                if self._changed or stop():
                    raise StoppedError
                self._condition.wait(0.2)  # the stop has no way to notify
            return self._arrived.pop(start)

    def close(self) -> list[Piece]:
        """Nobody waits any more: the pieces that were there in vain."""
        with self._condition:
            self._closed = True
            vain = list(self._arrived.values())
            self._arrived.clear()
            return vain
