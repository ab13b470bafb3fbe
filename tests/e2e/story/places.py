"""Which place: found, named and left again."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from backstay_cluster.cluster import DEFAULT_NAME, Cluster, cache_root
from backstay_cluster.progress import Progress

from tests.e2e.story import bucket, place
from tests.e2e.story import clean as cleaning
from tests.e2e.story.kube import Kube, KubectlError
from tests.e2e.story.place import Place

STARTED = "started-by-demo"
"""File in the run folder of a node that the demo started and may therefore end."""


NEEDED_BYTES = 8_000_000_000
"""Room for the models (2 GB), their objects and the copies in the pods, with as much again for a second run."""


def find(name: str, environment: Mapping[str, str], progress: Progress) -> Place:
    """The user's cluster where one answers, else the project's node: built, started or repaired."""
    given = place.given_cluster(environment)
    if given is not None:
        return place.given_place(given, environment, progress)
    cache_root().mkdir(parents=True, exist_ok=True)
    require_room(shutil.disk_usage(cache_root()).free)
    there = place.present_node(name)
    found = place.own_node(name, progress)
    if there is None:
        _mark(found.cluster).touch()
    return found


def kubectl(found: Place) -> str:
    """How a person types kubectl for this place, from the project's folder."""
    if found.cluster is None:
        return "kubectl"
    named = "" if found.cluster.name == DEFAULT_NAME else f" --name {found.cluster.name}"
    return f"uv run python -m backstay_cluster kubectl{named}"


def clean(name: str, environment: Mapping[str, str], progress: Progress) -> None:
    """Remove what the demo made: its objects, and the node if the demo started it."""
    node = place.present_node(name)
    given = place.given_cluster(environment)
    if node is not None and _mark(node).exists():
        with progress.step(f"remove node {name}") as step:
            step.waits_for("its pods and programs to end")
            place.remove_node(name)
    elif node is not None:
        kube = Kube(str(node.bin / "kubectl"), (f"--kubeconfig={node.kubeconfig}",))
        _objects(kube, progress)
        with progress.step("remove the models from the object storage"):
            bucket.remove(Place(kube, "", "", node))
    if given is not None:
        _objects(given, progress)


def require_room(free: int) -> None:
    """Raises DemoError if so many free bytes are too few: a full disk would only show in the middle of the story."""
    if free < NEEDED_BYTES:
        raise place.DemoError(
            f"{cache_root()}: {free / 1e9:.1f} GB are free, and models, their copies in storage and pods take "
            f"{NEEDED_BYTES / 1e9:.0f} GB; make room, or set BACKSTAY_CACHE to a folder on another disk"
        )


def _objects(kube: Kube, progress: Progress) -> None:
    try:
        cleaning.resources(kube, progress)
        cleaning.operator(kube, progress)
        cleaning.storage(kube, progress)
    except KubectlError as error:
        raise place.DemoError(f"not all could be removed: {error}") from error


def _mark(node: Cluster | None) -> Path:
    assert node is not None
    return node.run / STARTED
