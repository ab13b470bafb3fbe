"""One pull of a digest at a time, also among pods that share a folder. The lock ends with its process."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backstay_runtime.pull.log import Log

POLL_SECONDS = 0.25
TELL_SECONDS = 10.0


@contextmanager
def locked(models: Path, hex_digest: str, log: Log) -> Iterator[None]:
    """Holds the lock of a digest; waits while another process holds it, and says so.

    The lock file stays: were it removed, two processes could hold locks on two files of the same name.
    """
    descriptor = os.open(models / f".lock-{hex_digest}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        _wait(descriptor, log)
        yield
    finally:
        os.close(descriptor)


def _wait(descriptor: int, log: Log) -> None:
    tell_at = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= tell_at:
                log("another pod pulls this digest; waiting for it")
                tell_at = time.monotonic() + TELL_SECONDS
            time.sleep(POLL_SECONDS)
        else:
            return
