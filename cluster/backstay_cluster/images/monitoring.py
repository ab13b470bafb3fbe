"""Prometheus, built from its pinned Go module with one kind of discovery instead of thirty clouds' client libraries."""

import os
import subprocess
import tempfile
from collections import deque
from pathlib import Path

from backstay_cluster import locks, programs, toolchain
from backstay_cluster.cluster import cache_root
from backstay_cluster.errors import ClusterError
from backstay_cluster.images import keys
from backstay_cluster.progress import Progress, Step

SOURCES = programs.SOURCES / "programs" / "prometheus"
PROMETHEUS = programs.Program("prometheus", "github.com/prometheus/prometheus/cmd/prometheus")
TAGS = "remove_all_sd,enable_kubernetes_sd"


def key() -> str:
    """Hash of all that decides the program's content."""
    return keys.key([keys.text("program", programs.key(PROMETHEUS, SOURCES)), keys.text("tags", TAGS)])


def location() -> Path:
    """Where the built program lies, built or not."""
    return cache_root() / "programs" / f"prometheus-{key()}" / "prometheus"


def ensure(progress: Progress) -> Path:
    """The program, built if it is not in the cache. Safe when called twice at once."""
    with locks.held(cache_root() / "programs" / "prometheus.lock"):
        if not location().exists():
            go = toolchain.go(progress)
            with progress.step("build prometheus") as step:
                _build(go, location(), step)
    return location()


def build_command(go: Path, target: Path) -> list[str]:
    """The command line of the build, to be run in SOURCES."""
    flags = ["-v", "-tags", TAGS, "-ldflags", PROMETHEUS.link_flags]
    return [str(go), "build", *flags, "-o", str(target), PROMETHEUS.package]


def _build(go: Path, target: Path, step: Step) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    said: deque[str] = deque(maxlen=20)
    compiled = 0
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = build_command(go, Path(folder) / "prometheus")
        with subprocess.Popen(command, cwd=SOURCES, env=environment, stderr=subprocess.PIPE, text=True) as build:
            assert build.stderr is not None  # noqa: S101 - for the type checker: it is a pipe
            for line in build.stderr:
                said.append(line.rstrip())
                compiled += not line.startswith(("go: ", "#"))
                step.waits_for(f"the compiler: {compiled} packages so far, now {line.strip()}")
        if build.returncode != 0:
            raise ClusterError(f"{' '.join(command)}: exit {build.returncode}\n" + "\n".join(said))
        (Path(folder) / "prometheus").rename(target)
    step.note = f"{compiled} packages compiled"
