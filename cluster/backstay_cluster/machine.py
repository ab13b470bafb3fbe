"""What the node's configuration must know of this machine's kernel, and settings of it that the kubelet changes."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

_CAP_SYS_RESOURCE = 24
CGROUPS = Path("/sys/fs/cgroup")
KUBELET_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""The kubelet sets these for the whole machine; they are put back when the last node has gone."""


def may_lower_oom_score(status: str) -> bool:
    """Whether CAP_SYS_RESOURCE is among the effective capabilities of a /proc/PID/status. Without it runc dies when
    containerd asks for a lower OOM score than its own."""
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_RESOURCE & 1)
    return False


def unified_cgroups() -> bool:
    """Whether cgroups are version 2 only."""
    return (CGROUPS / "cgroup.controllers").exists()


def make_cgroup(name: str) -> None:
    """Make the cgroup in every hierarchy, or in the one of version 2 with the controllers that pods need."""
    if not unified_cgroups():
        for hierarchy in _hierarchies():
            (hierarchy / name.lstrip("/")).mkdir(parents=True, exist_ok=True)
        return
    folder = CGROUPS
    for part in (None, *name.strip("/").split("/")):
        folder = folder / part if part else folder
        folder.mkdir(exist_ok=True)
        for controller in (folder / "cgroup.controllers").read_text().split():
            with contextlib.suppress(OSError):  # the root's own processes can forbid one
                (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def cgroup_members(name: str) -> set[int]:
    """Processes in the cgroup or below it, in any hierarchy."""
    found: set[int] = set()
    for folder in cgroups(name):
        with contextlib.suppress(OSError):
            found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
    return found


def remove_cgroup(name: str) -> list[Path]:
    """Remove the cgroup with all below it, and its parents where they are empty; what could not be removed."""
    left = []
    for folder in cgroups(name):
        try:
            folder.rmdir()
        except OSError:
            left.append(folder)
    for hierarchy in _hierarchies():
        for parent in Path(name.lstrip("/")).parents:
            if parent != Path():
                with contextlib.suppress(OSError):
                    (hierarchy / parent).rmdir()
    return left


def settings() -> dict[str, str]:
    """The settings that the kubelet changes, as they are now."""
    return {name: _setting(name).read_text().strip() for name in KUBELET_SETTINGS if _setting(name).exists()}


def put_settings(values: Mapping[str, str]) -> None:
    """Write those that differ."""
    for name, value in values.items():
        if _setting(name).read_text().strip() != value:
            _setting(name).write_text(value)


def _setting(name: str) -> Path:
    return Path("/proc/sys") / name


def _hierarchies() -> list[Path]:
    if unified_cgroups():
        return [CGROUPS]
    return sorted(folder for folder in CGROUPS.iterdir() if folder.is_dir() and not folder.is_symlink())


def cgroups(name: str) -> Iterator[Path]:
    """The cgroup's folders and those below, in all hierarchies, inner ones before outer ones."""
    for hierarchy in _hierarchies():
        top = hierarchy / name.lstrip("/")
        if top.is_dir():
            inner = (folder for folder in top.rglob("*") if folder.is_dir())
            yield from sorted(inner, key=lambda folder: len(folder.parts), reverse=True)
            yield top
