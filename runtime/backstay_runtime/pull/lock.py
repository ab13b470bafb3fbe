"""Locks among pods that share a folder. Each ends with its process."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backstay_runtime.pull.log import Log

POLL_SECONDS = 0.25
TELL_SECONDS = 10.0


def lock_file(models: Path, hex_digest: str) -> Path:
    """The file that one pull of a digest at a time holds.

    It stays: were it removed, two processes could hold locks on two files of the same name.
    """
    return models / f".lock-{hex_digest}"


def open_lock(file: Path) -> int:
    """A descriptor of a lock's file, which is made if there is none."""
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


@contextmanager
def waiting_for(file: Path, log: Log, why: str) -> Iterator[None]:
    """Holds a lock; waits while another process holds it, and says so."""
    descriptor = open_lock(file)
    try:
        tell_at = time.monotonic()
        while not _take(descriptor):
            if time.monotonic() >= tell_at:
                log(f"{why}; waiting for it")
                tell_at = time.monotonic() + TELL_SECONDS
            time.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def at_once(file: Path) -> Iterator[bool]:
    """Whether the lock could be had without waiting; then it is held to the block's end."""
    descriptor = open_lock(file)
    try:
        yield _take(descriptor)
    finally:
        os.close(descriptor)


def is_free(file: Path) -> bool:
    """Whether nobody holds the lock, alone or with others."""
    with at_once(file) as taken:
        return taken


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
