import threading
from collections.abc import Callable, Iterable
from io import StringIO
from pathlib import Path

import pytest
from backstay_cluster import prerequisites
from backstay_cluster.errors import ClusterError
from backstay_cluster.images import debian, keys, layout, recipes, store
from backstay_cluster.images.keys import Part
from backstay_cluster.images.recipes import Recipe, Target
from backstay_cluster.images.workshop import Build, Workshop
from backstay_cluster.progress import Progress, Step

from .image_store import write_image


class Bench:
    """A workshop that builds nothing: its images are what lies in the build's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.images: dict[str, bytes] = {}
        self.built: list[str] = []

    def build(self, build: Build, log: Path, step: Step) -> None:
        self.built.append(build.reference)
        self.images[build.reference] = (build.context / "content").read_bytes()

    def has(self, reference: str) -> bool:
        return reference in self.images

    def export(self, reference: str, folder: Path, blobs: Path) -> None:
        write_image(blobs.parent, self.images[reference], reference=reference, folder=folder.name)

    def references(self) -> list[str]:
        return list(self.images)

    def remove(self, references: Iterable[str]) -> None:
        for reference in references:
            del self.images[reference]


class World:
    """One image whose content a test may change."""

    def __init__(self, root: Path) -> None:
        self.content = b"first"
        self.while_copying: Callable[[], None] = lambda: None
        self.bench = Bench(root)
        self.store = store.Store(root, self.bench)  # type: ignore[arg-type]

    def parts(self) -> Iterable[Part]:
        return [("content", self.content)]

    def prepare(self, target: Target, folder: Path, step: Step) -> Build:
        (folder / "content").write_bytes(self.content)
        self.while_copying()
        return Build(folder / "Containerfile", folder, target.reference)

    def ensure(self, *, rebuild: bool = False) -> Path:
        (folder,) = store.ensure(["thing"], Progress(StringIO()), rebuild=rebuild)
        return folder

    def layer(self, folder: Path) -> bytes:
        image = layout.read(folder, self.store.blobs)
        return image.path(image.layers[0]).read_bytes()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path / "images")
    monkeypatch.setattr(recipes, "RECIPES", {"thing": Recipe("thing", made.parts, made.prepare)})
    monkeypatch.setattr(store, "default", lambda: made.store)
    monkeypatch.setattr(store, "PREREQUISITES", ())
    monkeypatch.setattr(prerequisites, "require", lambda commands, progress: None)
    return made


def test_an_image_is_built_once_for_its_content(world: World) -> None:
    assert world.ensure() == world.ensure()
    assert len(world.bench.built) == 1


def test_another_content_is_another_image_beside_the_first(world: World) -> None:
    first = world.ensure()
    world.content = b"second"
    second = world.ensure()
    assert world.layer(first) == b"first"
    assert world.layer(second) == b"second"


def test_an_image_that_lost_a_layer_is_built_again(world: World) -> None:
    folder = world.ensure()
    for blob in world.store.blobs.iterdir():
        blob.unlink()
    assert world.layer(world.ensure()) == b"first"
    assert world.ensure() == folder


def test_a_rebuild_builds_what_is_there(world: World) -> None:
    world.ensure()
    world.ensure(rebuild=True)
    assert len(world.bench.built) == 2


def test_two_callers_at_once_build_once(world: World) -> None:
    found: list[Path] = []
    callers = [threading.Thread(target=lambda: found.append(world.ensure())) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(set(found)) == 1
    assert len(found) == 4
    assert len(world.bench.built) == 1


def test_sources_that_change_while_they_are_copied_never_get_under_the_wrong_name(world: World) -> None:
    def edit_once() -> None:
        world.while_copying = lambda: None
        world.content = b"second"

    world.while_copying = edit_once
    folder = world.ensure()
    assert world.layer(folder) == b"second"
    assert folder.name == f"thing-{keys.key([keys.text('machine', debian.architecture()), *world.parts()])}"
    assert len(world.bench.built) == 1


def test_sources_that_never_rest_are_an_error(world: World) -> None:
    def edit() -> None:
        world.content += b"."

    world.while_copying = edit
    with pytest.raises(ClusterError, match="thing: the sources changed"):
        world.ensure()
    assert not world.bench.built


def test_a_failed_build_leaves_no_image_and_no_scratch_folder(world: World) -> None:
    def fail() -> None:
        raise ClusterError("no compiler")

    world.while_copying = fail
    with pytest.raises(ClusterError, match="no compiler"):
        world.ensure()
    assert [path.name for path in world.store.root.iterdir()] == ["lock"]


def test_pruning_keeps_the_present_image_and_removes_the_others(world: World) -> None:
    first = world.ensure()
    world.content = b"second, longer"
    second = world.ensure()
    freed = store.prune(Progress(StringIO()))
    assert freed >= len(b"first")
    assert not first.exists()
    assert world.layer(second) == b"second, longer"
    assert len(world.bench.images) == 1
    assert world.ensure() == second


def test_an_unknown_image_is_an_error_that_lists_the_known_ones(world: World) -> None:
    with pytest.raises(ClusterError, match="'nothing': there are thing"):
        store.ensure(["nothing"], Progress(StringIO()))


def test_a_build_never_pulls_and_secrets_are_no_arguments(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path / "root", tmp_path / "state")
    build = Build(tmp_path / "File", tmp_path, "name:tag", {"A": "1"}, {tmp_path: "/cache"}, {"ca": tmp_path / "ca"})
    command = workshop.build_command(build)
    assert command[-1] == str(tmp_path)
    assert {"--pull-never", "--layers", "--build-arg=A=1", f"--secret=id=ca,src={tmp_path / 'ca'}"} <= set(command)


def test_an_image_of_one_layer_has_the_same_digest_whenever_it_is_built(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path / "root", tmp_path / "state")
    command = workshop.build_command(Build(tmp_path / "File", tmp_path, "name:tag", layers=False))
    assert "--timestamp=0" in command
    assert "--layers" not in command


def test_layers_are_exported_as_they_are_into_the_shared_folder(tmp_path: Path) -> None:
    command = Workshop(Path("/root"), Path("/state")).export_command("name:tag", Path("/image"), Path("/blobs"))
    assert "--dest-oci-accept-uncompressed-layers" in command
    assert "--dest-shared-blob-dir=/blobs" in command
    assert command[-2:] == ["containers-storage:[overlay@/root+/state]name:tag", "oci:/image:name:tag"]


def test_the_callers_package_index_reaches_the_build() -> None:
    target = recipes.Target("operator", "0" * 12, "localhost/backstay/operator:" + "0" * 12)
    without = recipes.project_arguments(target, "base", {})
    given = recipes.project_arguments(target, "base", {"UV_DEFAULT_INDEX": "https://index.example"})
    assert "UV_DEFAULT_INDEX" not in without
    assert given["UV_DEFAULT_INDEX"] == "https://index.example"
    assert given["REVISION"] == "0" * 12
    assert given["PYTHON_IMAGE"] == "base"


def test_only_the_first_runtime_takes_the_disk_that_torch_takes(tmp_path: Path) -> None:
    one = store.Store(tmp_path, Workshop(tmp_path / "buildah", tmp_path / "state"))
    (tmp_path / "buildah").mkdir()  # other images were built before: that is not torch's layer
    (tmp_path / "pause-0123456789ab").mkdir()
    assert one.disk_gib(["operator"]) == store.REBUILD_GIB
    assert one.disk_gib(["operator", "runtime"]) == store.FIRST_BUILD_GIB
    (tmp_path / "runtime-0123456789ab").mkdir()
    assert one.disk_gib(["runtime"]) == store.REBUILD_GIB
