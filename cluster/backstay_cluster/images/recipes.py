"""Which images there are, what decides their content, and what a build of each needs."""

import os
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from backstay_cluster import programs
from backstay_cluster.errors import ClusterError
from backstay_cluster.images import debian, keys, monitoring
from backstay_cluster.images.keys import Part
from backstay_cluster.images.workshop import Build
from backstay_cluster.progress import Progress, Step
from backstay_cluster.shell import run

REGISTRY = "localhost/backstay"
"""Nothing listens there: whoever finds an image missing must not ask the network for it."""
USER = "65532:65532"
PROJECT = programs.SOURCES.parent
"""The folder of the Dockerfiles."""
PAUSE_SOURCE = Path(__file__).with_name("pause.c")
PAUSE_FLAGS = ("-Os", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-s")
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")

MEMBER_FILES = tuple(f"{member}/pyproject.toml" for member in ("contract", "operator", "runtime", "cli", "cluster"))
"""uv reads the lock only beside all members of the workspace."""

_ACCOUNTS = (
    keys.text("etc/passwd", "root:x:0:0::/:/sbin/nologin\nbackstay:x:65532:65532::/tmp:/sbin/nologin\n"),
    keys.text("etc/group", "root:x:0:\nbackstay:x:65532:\n"),
)


@dataclass(frozen=True)
class Target:
    """An image of one content: sources may change while a build runs, its name may not."""

    name: str
    key: str
    reference: str
    """The image's full name, for example localhost/backstay/runtime:0123456789ab"""

    @property
    def folder(self) -> str:
        """Name of its folder in the cache."""
        return f"{self.name}-{self.key}"


@dataclass(frozen=True)
class Recipe:
    """One image. A recipe knows its key without building anything."""

    name: str
    parts: Callable[[], Iterable[Part]]
    """All that decides the content."""
    prepare: Callable[[Target, Path, Step], Build]
    """Given an empty folder: fill it with all that the build reads, and say what buildah is to do."""
    tag: str | None = None
    """A fixed tag, where others must know the name beforehand; else the key."""
    base: str | None = None
    """The recipe whose image this one builds on."""
    program: Callable[[Progress], Path] | None = None
    """Makes the Go program that the image carries; called before `prepare`, as it may take minutes."""

    def target(self) -> Target:
        """The image that the present content asks for."""
        base = [keys.text("base", recipe(self.base).target().key)] if self.base else []
        key = keys.key([keys.text("machine", debian.architecture()), *base, *self.parts()])
        return Target(self.name, key, f"{REGISTRY}/{self.name}:{self.tag or key}")


def recipe(name: str) -> Recipe:
    """The recipe of that name; ClusterError listing all when there is none."""
    if name not in RECIPES:
        raise ClusterError(f"no image {name!r}: there are {', '.join(RECIPES)}")
    return RECIPES[name]


def containerfile(entry: str) -> str:
    """For images made of one file tree, `root`, and nothing else."""
    return f'FROM scratch\nCOPY root /\nUSER {USER}\nENTRYPOINT ["/{entry}"]\n'


def write_tree(root: Path, parts: Iterable[Part]) -> None:
    """Write the parts as files below a folder."""
    for name, content in parts:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def project_arguments(target: Target, base: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Build arguments of the project's own images. The package index is the caller's, if one is set."""
    member = tomllib.loads((PROJECT / target.name / "pyproject.toml").read_text())
    arguments = {
        "PYTHON_IMAGE": base,
        "UV_CACHE_DIR": "/machine-cache",
        "VERSION": str(member["project"]["version"]),
        "REVISION": target.key,
    }
    index = environment.get("UV_DEFAULT_INDEX")
    return {**arguments, "UV_DEFAULT_INDEX": index} if index else arguments


def _single(folder: Path, reference: str, entry: str) -> Build:
    write_tree(folder / "root", _ACCOUNTS)
    (folder / "Containerfile").write_text(containerfile(entry))
    return Build(folder / "Containerfile", folder, reference, layers=False)


def _pause() -> Recipe:
    def parts() -> Iterable[Part]:
        return [("pause.c", PAUSE_SOURCE.read_bytes()), keys.text("flags", " ".join(PAUSE_FLAGS)), _form("pause")]

    def prepare(target: Target, folder: Path, step: Step) -> Build:
        step.waits_for("gcc")
        (folder / "root").mkdir()
        run(["gcc", *PAUSE_FLAGS, "-o", str(folder / "root" / "pause"), str(PAUSE_SOURCE)])
        return _single(folder, target.reference, "pause")

    return Recipe("pause", parts, prepare, tag="1")


def _go_program(name: str, key: Callable[[], str], ensure: Callable[[Progress], Path]) -> Recipe:
    def parts() -> Iterable[Part]:
        return [keys.text("program", key()), _form(name)]

    def prepare(target: Target, folder: Path, step: Step) -> Build:
        step.waits_for("the copy of the program")
        (folder / "root").mkdir()
        shutil.copy2(ensure(Progress()), folder / "root" / name)
        return _single(folder, target.reference, name)

    return Recipe(name, parts, prepare, program=ensure)


def _cluster_program(name: str) -> Recipe:
    return _go_program(
        name,
        lambda: programs.key(programs.PROGRAMS[name]),
        lambda progress: programs.ensure([name], progress)[name],
    )


def _debian_program(name: str, package: str, program: str, *others: str) -> Recipe:
    def parts() -> Iterable[Part]:
        packages = debian.package_files(package, "libc6")
        return [keys.text("packages", "\n".join(packages)), keys.text("files", "\n".join(others)), _form(program)]

    def prepare(target: Target, folder: Path, step: Step) -> Build:
        debian.program_tree(package, [program, *others], folder / "root", step)
        return _single(folder, target.reference, program)

    return Recipe(name, parts, prepare)


def _python() -> Recipe:
    recipe_text = 'FROM scratch\nCOPY root /\nENV PATH=/usr/local/bin:/usr/bin:/bin\nCMD ["python3"]\n'

    def parts() -> Iterable[Part]:
        packages = " ".join(debian.PYTHON_PACKAGES)
        return [keys.text("suite", debian.SUITE), keys.text("packages", packages), keys.text("form", recipe_text)]

    def prepare(target: Target, folder: Path, step: Step) -> Build:
        step.waits_for(f"debootstrap to install Debian {debian.SUITE} with Python")
        debian.python_tree(folder / "root")
        (folder / "Containerfile").write_text(recipe_text)
        return Build(folder / "Containerfile", folder, target.reference, layers=False)

    return Recipe("python", parts, prepare)


def _project(name: str) -> Recipe:
    dockerfile = f"Dockerfile.{name}"
    content = [dockerfile, ".dockerignore", "LICENSE", "uv.lock", "pyproject.toml", *MEMBER_FILES, "contract", name]

    def parts() -> Iterable[Part]:
        return keys.files(PROJECT, content)

    def prepare(target: Target, folder: Path, step: Step) -> Build:
        step.waits_for("a copy of the sources")
        write_tree(folder, keys.files(PROJECT, content))
        cache = Path(os.environ.get("UV_CACHE_DIR") or Path.home() / ".cache" / "uv")
        cache.mkdir(parents=True, exist_ok=True)
        bundle = Path(os.environ.get("SSL_CERT_FILE") or CA_BUNDLE)
        return Build(
            folder / dockerfile,
            folder,
            target.reference,
            arguments=project_arguments(target, recipe("python").target().reference, os.environ),
            volumes={cache: "/machine-cache"},
            secrets={"ca": bundle} if bundle.is_file() else {},
        )

    return Recipe(name, parts, prepare, base="python")


def _form(entry: str) -> Part:
    return keys.text("form", keys.key([keys.text("containerfile", containerfile(entry)), *_ACCOUNTS]))


RECIPES = {
    recipe.name: recipe
    for recipe in (
        _pause(),
        _cluster_program("coredns"),
        _cluster_program("minio"),
        _go_program("prometheus", monitoring.key, monitoring.ensure),
        _debian_program(
            "alertmanager",
            "prometheus-alertmanager",
            "usr/bin/prometheus-alertmanager",
            "usr/share/prometheus/alertmanager",  # the templates of messages: it does not start without
        ),
        _python(),
        _project("operator"),
        _project("runtime"),
    )
}
SYSTEM = ("pause", "coredns")
"""What a node needs before anything else."""
ADDONS = ("minio", "prometheus", "alertmanager")
PROJECT_IMAGES = ("operator", "runtime")
