"""Makes a verified model visible: one rename.

Nothing is synced to the disk. Each pod verifies what it finds before it uses it, so bytes that a node lost with its
power are fetched again, and a pull need not wait for the disk to take all of them.
"""

import shutil
from pathlib import Path

from backstay_runtime.pull.partial import Partial


def install(partial: Partial, final: Path) -> None:
    """Renames the partial folder's model to `final`; a reader sees nothing of it or all of it."""
    partial.model.rename(final)
    partial.discard()


def remove(final: Path) -> None:
    """Takes a bad model away at once; a server that has its files open keeps them."""
    doomed = final.with_name(f".bad-{final.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    final.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
