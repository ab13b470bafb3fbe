"""One real node for all end-to-end tests of a run, with the operator in it."""

import os
from collections.abc import Iterator

import pytest
from backstay_cluster.progress import Progress

from tests.e2e.bench import Bench
from tests.e2e.story import clean, install, place
from tests.e2e.story.place import Place

NODE = "BACKSTAY_TEST_NODE"
"""Name of a node to use; one that runs already is used as it is and left running."""


@pytest.fixture(scope="session")
def node() -> Iterator[Place]:
    """The project's node with storage, monitoring and the images of the present code."""
    name = os.environ.get(NODE, "e2e")
    there = place.present_node(name) is not None
    found = place.own_node(name, Progress())
    try:
        yield found
    finally:
        if not there:
            place.remove_node(name)


@pytest.fixture(scope="session")
def installed(node: Place) -> Iterator[Place]:
    """The node with the operator from the rendered manifests."""
    progress = Progress()
    clean.resources(node.kube, progress)
    install.operator(node, BACKSTAY_NODE_CACHE="true")
    install.demo_namespace(node)
    install.wait_for_operator(node)
    yield node
    clean.resources(node.kube, progress)
    clean.operator(node.kube, progress)


@pytest.fixture
def bench(
    installed: Place, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Bench]:
    """Tiny models and resources of a test's own; what it asked for is gone when it ends."""
    made = Bench(installed, tmp_path_factory.mktemp("models"), test=request.node.name)
    with made:
        yield made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The story comes last: the quick tests say sooner what is wrong."""
    items.sort(key=lambda item: "test_story" in item.nodeid)
