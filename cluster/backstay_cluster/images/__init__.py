"""The images of a cluster and of the project: building, caching, importing, and the addons' manifests."""

from pathlib import Path

from backstay_cluster.images import layout, recipes, store
from backstay_cluster.images.importing import load
from backstay_cluster.images.main import main
from backstay_cluster.images.manifests import FOLDER, render_manifests
from backstay_cluster.progress import Progress

__all__ = [
    "FOLDER",
    "addon_images",
    "load",
    "main",
    "project_images",
    "render_manifests",
    "system_images",
]


def system_images(progress: Progress | None = None) -> list[tuple[str, Path]]:
    """(name, folder for `load`) of what a node needs: pause and CoreDNS. Builds what is missing."""
    return _named(recipes.SYSTEM, progress)


def addon_images(progress: Progress | None = None) -> list[tuple[str, Path]]:
    """(name, folder for `load`) of MinIO, Prometheus and Alertmanager. Builds what is missing."""
    return _named(recipes.ADDONS, progress)


def project_images(progress: Progress | None = None) -> list[tuple[str, Path]]:
    """(name, folder for `load`) of the operator and the runtime, of the checkout's present content."""
    return _named(recipes.PROJECT_IMAGES, progress)


def _named(names: tuple[str, ...], progress: Progress | None) -> list[tuple[str, Path]]:
    folders = store.ensure(names, progress or Progress())
    blobs = store.default().blobs
    return [(layout.read(folder, blobs).reference, folder) for folder in folders]
