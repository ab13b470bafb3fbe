"""Makes a verified model visible: synced to the disk, then one rename."""

import os
import shutil
from pathlib import Path

from backstay_runtime.pull.partial import Partial


def install(partial: Partial, final: Path) -> None:
    """Renames the partial folder's model to `final`; a reader sees nothing of it or all of it."""
    for root, _, names in os.walk(partial.model, topdown=False):
        for name in names:
            _sync(Path(root) / name)
        _sync(Path(root))
    partial.model.rename(final)
    _sync(final.parent)
    partial.discard()


def remove(final: Path) -> None:
    """Takes a bad model away at once; a server that has its files open keeps them."""
    doomed = final.with_name(f".bad-{final.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    final.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
