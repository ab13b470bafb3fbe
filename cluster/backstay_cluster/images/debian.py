"""File trees from Debian packages: the Python base, and programs taken out of their packages."""

import functools
import platform
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from backstay_cluster.errors import ClusterError
from backstay_cluster.progress import Step
from backstay_cluster.shell import run, succeeds

SUITE = "bookworm"
PYTHON_PACKAGES = ("python3", "python3-venv", "ca-certificates")
_SUPERFLUOUS = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/lintian",
)
"""Half of what debootstrap leaves (275 of which 132 MB stay)."""
_BOOTSTRAP_LIMIT_S = 1200.0


def python_tree(root: Path) -> None:
    """A minimal Debian with Python in the folder `root`, which must not exist yet."""
    packages = ",".join(PYTHON_PACKAGES)
    run(
        ["debootstrap", "--variant=minbase", f"--include={packages}", SUITE, str(root)],
        timeout_s=_BOOTSTRAP_LIMIT_S,
    )
    for folder in _SUPERFLUOUS:
        shutil.rmtree(root / folder, ignore_errors=True)
        (root / folder).mkdir(parents=True, exist_ok=True)


@functools.lru_cache
def package_files(*packages: str) -> tuple[str, ...]:
    """Names of the package files that apt would download, sorted; they hold the versions."""
    command = ["apt-get", "download", "--print-uris", *packages]
    if not succeeds(command):
        run(["apt-get", "update", "-q"], timeout_s=600)
    return tuple(sorted(line.split()[1] for line in run(command).splitlines() if line.startswith("'")))


def unpack(packages: Iterable[str], root: Path, step: Step) -> None:
    """The files of these packages in the folder `root`; no script of a package runs."""
    names = list(packages)
    step.waits_for(f"apt-get to download {', '.join(names)}")
    with tempfile.TemporaryDirectory() as folder:
        # A shell, as apt-get downloads into the folder that it is called from.
        run(["sh", "-c", 'cd "$1" && shift && exec apt-get download -q "$@"', "sh", folder, *names], timeout_s=600)
        for file in sorted(Path(folder).glob("*.deb")):
            run(["dpkg-deb", "--extract", str(file), str(root)], timeout_s=300)


def program_tree(package: str, files: Iterable[str], root: Path, step: Step) -> None:
    """In `root`: these files and folders of the package, programs among them, at their places, and the C library
    that the programs are linked with."""
    with tempfile.TemporaryDirectory() as folder:
        unpacked = Path(folder)
        unpack([package, "libc6"], unpacked, step)
        for name in (*files, "lib", "lib64"):
            source = unpacked / name
            if source.is_dir():
                shutil.copytree(source, root / name, symlinks=True)
            elif source.is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, root / name)
            else:
                raise ClusterError(f"Debian's package {package} has no {name}: this needs Debian {SUITE}'s")


def architecture() -> str:
    """The machine's architecture, which every key must hold."""
    return platform.machine()
