"""Mounts that a cluster leaves, found in the kernel's list."""

import re
from collections.abc import Iterable
from pathlib import Path

from backstay_cluster.shell import succeeds


def below(mountinfo: str, folders: Iterable[Path]) -> list[Path]:
    """Mount points in or on one of the folders, those mounted last first: the order to unmount them in."""
    roots = tuple(folders)
    found = []
    for line in mountinfo.splitlines():
        point = Path(_unescape(line.split()[4]))
        if any(point == root or root in point.parents for root in roots):
            found.append(point)
    return found[::-1]


def unmount_below(folders: Iterable[Path]) -> None:
    """Unmount everything in the folders; lazily where something still uses it."""
    for point in below(Path("/proc/self/mountinfo").read_text(), folders):
        if not succeeds(["umount", str(point)]):
            succeeds(["umount", "--lazy", str(point)])


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
