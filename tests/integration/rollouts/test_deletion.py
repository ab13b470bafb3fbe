"""Deletion in every way that Kubernetes knows, and when what the resource names is gone."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from backstay_cluster.control_plane import ControlPlane

from tests.integration.harness.api import done
from tests.integration.harness.story import Story

pytestmark = pytest.mark.control_plane

SOON = 60
"""Seconds within which a resource must be gone, whatever it is that cannot be found any more."""


def delete(story: Story, how: str) -> None:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": how}
    done(story.client.request("DELETE", story.path, json=options))


def is_gone(story: Story) -> bool:
    return bool(story.client.get(story.path).status_code == 404)


def owners(story: Story) -> dict[str, Any]:
    """Children and who owns them."""
    found = {}
    for plural, path in (("services", "/api/v1"), ("deployments", "/apis/apps/v1"),
                         ("poddisruptionbudgets", "/apis/policy/v1")):  # fmt: skip
        for one in done(story.client.get(f"{path}/namespaces/{story.namespace}/{plural}"))["items"]:
            found[f"{plural}/{one['metadata']['name']}"] = one["metadata"].get("ownerReferences")
    return found


@pytest.fixture
def serving(equipped: Story) -> Iterator[Story]:
    """1.0.0 serves with one pod, under traffic."""
    equipped.create("1.0.0", replicas=1)
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        equipped.wait("the budget", lambda: "poddisruptionbudgets/chat-blue" in owners(equipped))
        yield equipped


@pytest.mark.case("T34", "T36")
@pytest.mark.parametrize("how", ["Background", "Foreground"])
def test_a_deletion_leaves_nothing(serving: Story, how: str) -> None:
    delete(serving, how)
    serving.wait("the end", lambda: is_gone(serving), SOON)
    serving.wait("nothing left", lambda: not serving.children() and not owners(serving), 30)


CHILDREN = {
    "services/chat", "services/chat-preview", "deployments/chat-blue", "poddisruptionbudgets/chat-blue",
}  # fmt: skip


@pytest.mark.case("R86")
@pytest.mark.parametrize("how", ["--cascade=orphan", "deletionPolicy: Orphan"])
def test_an_orphaned_model_goes_on_serving_owned_by_nobody(serving: Story, how: str) -> None:
    (pod,) = serving.pods("blue")
    if how.startswith("deletionPolicy"):
        serving.edit(deletionPolicy="Orphan")
        delete(serving, "Background")
    else:
        delete(serving, "Orphan")
    serving.wait("the end", lambda: is_gone(serving), SOON)
    serving.pause(3)  # for a garbage collector that would not leave them
    assert {child: not owned for child, owned in owners(serving).items()} == dict.fromkeys(CHILDREN, True)
    assert serving.selector() == "blue"
    assert serving.pods("blue") == [pod]


@pytest.mark.case("T34")
def test_a_deletion_needs_neither_secret_nor_metrics_nor_a_valid_spec(serving: Story) -> None:
    """The Secret and the storage that the spec names were never there."""
    serving.edit(rollout={"metrics": {"source": "Prometheus"}})
    with serving.without_validation():
        serving.edit(model={"uri": "nonsense"})
        serving.wait_for(reason="SpecInvalid")
        delete(serving, "Background")
        serving.wait("the end", lambda: is_gone(serving), SOON)
    serving.wait("nothing left", lambda: not serving.children(), 30)


@pytest.mark.case("T34")
def test_a_deletion_in_the_midst_of_a_rollout_ends_both_colours(serving: Story) -> None:
    serving.behave("1.1.0", unready=True)
    serving.ask_for("1.1.0")
    serving.wait("a candidate", lambda: bool(serving.pods("green")))
    delete(serving, "Background")
    serving.wait("the end", lambda: is_gone(serving), SOON)
    serving.wait("nothing left", lambda: not serving.children(), 30)


@pytest.fixture
def own_namespace(control_plane: ControlPlane, equipped: Story) -> Story:
    """1.0.0 serves in a namespace that the test deletes."""
    name = f"doomed-{uuid.uuid4().hex[:10]}"
    control_plane.kubectl("create", "namespace", name)
    doomed = Story(equipped.client, name, equipped.kubelet, equipped.operator)
    doomed.create("1.0.0", replicas=1)
    with doomed.traffic():
        doomed.wait_until_serving("1.0.0")
    return doomed


def namespace_is_gone(story: Story) -> bool:
    return bool(story.client.get(f"/api/v1/namespaces/{story.namespace}").status_code == 404)


@pytest.mark.case("T34", "T36")
def test_a_namespace_can_be_deleted_with_everything_in_it(own_namespace: Story) -> None:
    done(own_namespace.client.delete(f"/api/v1/namespaces/{own_namespace.namespace}"))
    own_namespace.wait("the namespace's end", lambda: namespace_is_gone(own_namespace), SOON)
