"""The cache of built images: each is built once per content and lies there as an OCI layout."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from backstay_cluster import locks, mounts, prerequisites
from backstay_cluster.cluster import cache_root, run_root
from backstay_cluster.errors import ClusterError
from backstay_cluster.images import layout, recipes
from backstay_cluster.images.layout import Layout
from backstay_cluster.images.recipes import Recipe, Target
from backstay_cluster.images.workshop import Workshop
from backstay_cluster.progress import Progress

PREREQUISITES = (
    *prerequisites.IMAGES,
    prerequisites.Command("skopeo", "skopeo", "takes layers out of buildah's storage"),
)
EXPORTED = (*recipes.SYSTEM, *recipes.ADDONS, *recipes.PROJECT_IMAGES)
"""All images that a cluster may need; the Python base stays in the workshop."""
FIRST_BUILD_GIB = 20
"""Disk that the runtime's first build takes, nearly all for torch: a layer, a copy while it is stored, an export."""
REBUILD_GIB = 2
_SNAPSHOTS = 5
"""Tries to copy the sources while somebody edits them."""


@dataclass(frozen=True)
class Store:
    """The folders of the cache."""

    root: Path
    workshop: Workshop

    @property
    def blobs(self) -> Path:
        """All images' layers, each once, named by their digests."""
        return self.root / "blobs" / "sha256"

    def folder(self, target: Target) -> Path:
        """Where the image of that content lies, built or not."""
        return self.root / target.folder

    def log(self, recipe: Recipe) -> Path:
        """What the last build of the image said."""
        return self.root / "logs" / f"{recipe.name}.log"

    def find(self, target: Target) -> Layout | None:
        """The built image, or None when it is not there or a layer of it is gone."""
        try:
            found = layout.read(self.folder(target), self.blobs)
        except ClusterError:
            return None
        return found if found.complete else None

    def disk_gib(self, missing: Iterable[str]) -> int:
        """Disk that building these images takes; torch's layer is stored once for all runtimes."""
        first = "runtime" in missing and not any(self.root.glob("runtime-*"))
        return FIRST_BUILD_GIB if first else REBUILD_GIB

    @contextmanager
    def held(self) -> Iterator[None]:
        """One build at a time. At the end nothing of buildah's storage stays mounted."""
        with locks.held(self.root / "lock"):
            try:
                yield
            finally:
                mounts.unmount_below([self.workshop.root])

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """An empty folder on the store's disk, removed at the end unless it was renamed."""
        self.root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self.root))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def default() -> Store:
    """The store below the cache folder."""
    root = cache_root() / "images"
    return Store(root, Workshop(root / "buildah", run_root() / ".buildah"))


def ensure(names: Iterable[str], progress: Progress, *, rebuild: bool = False) -> list[Path]:
    """Folders of these images, in their order, each built if its content is not in the cache. Safe when called
    twice at once: the second waits and finds everything built."""
    store = default()
    wanted = {name: recipes.recipe(name).target() for name in names}
    missing = [recipes.recipe(name) for name, target in wanted.items() if rebuild or store.find(target) is None]
    if missing:
        prerequisites.require(PREREQUISITES, progress)
        prerequisites.require_disk(store.root, store.disk_gib(recipe.name for recipe in missing))
        # Before the lock: programs have locks of their own, and take minutes.
        for recipe in missing:
            if recipe.program:
                recipe.program(progress)
        with store.held():
            for recipe in missing:
                wanted[recipe.name] = _make(recipe, store, progress, rebuild=rebuild)
    return [store.folder(target) for target in wanted.values()]


def _make(recipe: Recipe, store: Store, progress: Progress, *, rebuild: bool) -> Target:
    target = recipe.target()
    if not rebuild and store.find(target) is not None:
        return target
    if recipe.base:
        base = recipes.recipe(recipe.base)
        if rebuild or not store.workshop.has(base.target().reference):
            _build(base, store, progress)
    target = _build(recipe, store, progress)
    with progress.step(f"export image {recipe.name}") as step, store.scratch(recipe.name) as folder:
        step.waits_for("skopeo to write the layers")
        store.workshop.export(target.reference, folder, store.blobs.parent)
        shutil.rmtree(store.folder(target), ignore_errors=True)
        os.rename(folder, store.folder(target))
        exported = layout.read(store.folder(target), store.blobs)
        step.note = f"{exported.reference}, {exported.size / 1e6:.0f} MB"
    return target


def _build(recipe: Recipe, store: Store, progress: Progress) -> Target:
    """Build what the sources ask for now. The build reads a copy of them, so that what somebody edits meanwhile
    never gets under a name that belongs to other content."""
    with progress.step(f"build image {recipe.name}") as step:
        for _ in range(_SNAPSHOTS):
            target = recipe.target()
            with store.scratch(recipe.name) as folder:
                build = recipe.prepare(target, folder, step)
                if recipe.target() == target:
                    store.workshop.build(build, store.log(recipe), step)
                    return target
    raise ClusterError(f"image {recipe.name}: the sources changed {_SNAPSHOTS} times while they were copied; try again")


def prune(progress: Progress) -> int:
    """Forget images that the present checkout does not ask for, and their layers; returns the bytes set free in
    the store (what buildah's own storage frees comes on top)."""
    store = default()
    with store.held(), progress.step("remove images of other contents") as step:
        wanted = [recipe.target() for recipe in recipes.RECIPES.values()]
        folders = {target.folder for target in wanted}
        for folder in store.root.glob("[!.]*-*"):
            if folder.name not in folders:
                shutil.rmtree(folder)
        kept = [found for target in wanted if (found := store.find(target)) is not None]
        freed = _remove_blobs(store.blobs, {blob.hex for image in kept for blob in image.blobs})
        step.waits_for("buildah to remove what no image is made of")
        references = {target.reference for target in wanted}
        store.workshop.remove([name for name in store.workshop.references() if name not in references])
        step.note = f"{freed / 1e6:.0f} MB set free"
    return freed


def _remove_blobs(folder: Path, needed: set[str]) -> int:
    freed = 0
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name not in needed:
            freed += path.stat().st_size
            path.unlink()
    return freed
