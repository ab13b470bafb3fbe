"""A server's hold on its model: as long as it lasts, no pull that needs room takes the model away."""

import fcntl
import os
from pathlib import Path

PREFIX = ".use-"


def hold_file(models: Path, hex_digest: str) -> Path:
    """The file whose lock is the hold. A pull makes it; its time of change is when a pull last asked for the model."""
    return models / f"{PREFIX}{hex_digest}"


def hold(model: Path) -> int | None:
    """Takes a share in the hold on a model's folder until the process ends; None where no pull brought the model.

    A volume that can only be read is enough: the lock needs no write.
    """
    try:
        descriptor = os.open(hold_file(model.parent, model.name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor
