"""Sizes and digests of a folder's files."""

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from backstay_contract import digest as digests
from backstay_contract.manifest import ModelFile

BUFFER = 256 * 1024
THREADS = 4

Advance = Callable[[int], None]
"""Called with a number of bytes that were just done."""


def hash_files(folder: Path, paths: Iterable[str], advance: Advance) -> tuple[ModelFile, ...]:
    """Each file with its size in bytes and its SHA-256, in the order of `paths`."""
    with ThreadPoolExecutor(THREADS, "hash") as pool:
        return tuple(pool.map(lambda path: hash_file(folder, path, advance), paths))


def hash_file(folder: Path, path: str, advance: Advance) -> ModelFile:
    """One file's size and SHA-256, read once."""
    hashed, size = hashlib.sha256(), 0
    buffer = memoryview(bytearray(BUFFER))
    with (folder / path).open("rb", buffering=0) as opened:
        while count := opened.readinto(buffer):
            hashed.update(buffer[:count])
            size += count
            advance(count)
    return ModelFile(path=path, size=size, sha256=digests.PREFIX + hashed.hexdigest())
