"""Which place: found, named and left again."""

from collections.abc import Mapping
from pathlib import Path

from backstay_cluster.cluster import DEFAULT_NAME, Cluster
from backstay_cluster.progress import Progress

from tests.e2e.story import clean as cleaning
from tests.e2e.story import place
from tests.e2e.story.kube import Kube, KubectlError
from tests.e2e.story.place import Place

STARTED = "started-by-demo"
"""File in the run folder of a node that the demo started and may therefore end."""


def find(name: str, environment: Mapping[str, str], progress: Progress) -> Place:
    """The user's cluster where one answers, else the project's node: built, started or repaired."""
    given = place.given_cluster(environment)
    if given is not None:
        return place.given_place(given, environment, progress)
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
        _objects(Kube(str(node.bin / "kubectl"), (f"--kubeconfig={node.kubeconfig}",)), progress)
    if given is not None:
        _objects(given, progress)


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
