"""SHA-256 of files, read through one small buffer."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

BUFFER = 256 * 1024
"""Bytes; stays in a core's cache between the read and the hash."""


class FileHash:
    """The SHA-256 of a file's first bytes, which grows with the file."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._hash = hashlib.sha256()
        self._buffer = memoryview(bytearray(BUFFER))
        self.at = 0
        """Bytes hashed so far."""

    def up_to(self, end: int, stopped: Callable[[], bool] = lambda: False) -> None:
        """Hashes on to offset `end`, or to the end of the file if that comes first."""
        while self.at < end and not stopped():
            count = os.preadv(self._descriptor, [self._buffer[: min(BUFFER, end - self.at)]], self.at)
            if count == 0:
                return
            self._hash.update(self._buffer[:count])
            self.at += count

    def digest(self) -> str:
        """`sha256:<hex>` of the bytes so far."""
        return f"sha256:{self._hash.hexdigest()}"

    def close(self) -> None:
        os.close(self._descriptor)


def sha256_of(file: Path, size: int) -> str:
    """The digest of a file that has `size` bytes."""
    hashed = FileHash(file)
    try:
        hashed.up_to(size)
        return hashed.digest()
    finally:
        hashed.close()
