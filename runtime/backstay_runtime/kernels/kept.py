"""Where machine code is kept: a folder that each process can write, begun with what was compiled ahead."""

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
        if shipped is not None and shipped.is_dir() and not _filled(folder):
            _copy_whole(shipped, folder)
        folder.mkdir(exist_ok=True)
    except OSError:
        # Another process may have been quicker. Where there is no room, numba would fail at its first file.
        return _filled(folder) and os.access(folder, os.W_OK)
    return os.access(folder, os.W_OK)


def _filled(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _copy_whole(given: Path, folder: Path) -> None:
    """All files or none, whoever else does the same at the same time. It is a copy, as numba wants to write there."""
    with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as beside:
        copy = shutil.copytree(given, Path(beside) / folder.name)
        for inner in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
            inner.chmod(0o755)  # an image's folders may be for reading only
        copy.rename(folder)
