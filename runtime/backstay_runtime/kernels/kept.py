"""Where machine code is kept: a folder that each process can write, begun with what was compiled ahead."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

SHIPPED = "BACKSTAY_KERNELS"
"""Environment variable: the folder that `kernels.ahead` filled. An image sets it."""


def folder_in(root: Path) -> Path:
    """Named after all sources: numba itself looks only at the file of each function."""
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))
    return root / f"kernels-{sources.hexdigest()[:16]}"


def prepare(folder: Path, shipped: Path | None) -> bool:
    """Makes the folder; a new one begins with the files of the `shipped` one, where there is such. False where nothing
    can be written."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if shipped is not None and shipped.is_dir() and not folder.exists():
            with contextlib.suppress(OSError, shutil.Error):  # compiling takes its place
                _copy_whole(shipped, folder)
        folder.mkdir(exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _copy_whole(given: Path, folder: Path) -> None:
    """All files or none, whoever else does the same at the same time. It is a copy, as numba wants to write there."""
    with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as beside:
        copy = shutil.copytree(given, Path(beside) / folder.name)
        copy.rename(folder)
