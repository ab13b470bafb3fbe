"""No room on the nodes, other hardware than the profile's, and Recreate: with the real scheduler."""

from collections.abc import Iterator

import pytest

from tests.integration.harness.api import Json, done, patch
from tests.integration.harness.fake_kubelet import NODE
from tests.integration.harness.story import NAME, Story, model

pytestmark = pytest.mark.control_plane

NODE_PATH = f"/api/v1/nodes/{NODE}"
GPU = "nvidia.com/gpu"


class House:
    """The played node's places, as a test narrows and widens them."""

    def __init__(self, story: Story) -> None:
        self.story = story

    def allocatable(self) -> Json:
        found: Json = done(self.story.client.get(NODE_PATH))["status"]["allocatable"]
        return found

    def set(self, **amounts: str) -> None:
        """The node has that much, and says so."""
        named = {name.replace("__", "/").replace("_", "."): amount for name, amount in amounts.items()}
        self.story.kubelet.room |= named
        self.story.wait(f"node with {named}", lambda: named.items() <= self.allocatable().items(), 15)

    def fill(self, more: int = 0) -> None:
        """As many places as there are pods now, and some more."""
        self.story.wait("no pods of the tests before", lambda: self.strangers() == [], 60)
        self.set(pods=str(len(self.pods()) + more))

    def pods(self) -> list[Json]:
        found = done(self.story.client.get("/api/v1/pods", params={"fieldSelector": f"spec.nodeName={NODE}"}))
        items: list[Json] = found["items"]
        return items

    def strangers(self) -> list[str]:
        """Pods of other namespaces: they may be about to go, and leave room."""
        spaces = (one["metadata"]["namespace"] for one in self.pods())
        return [space for space in spaces if space != self.story.namespace]

    def label(self, **labels: str | None) -> None:
        named = {name.replace("__", "/").replace("_", "."): value for name, value in labels.items()}
        patch({"metadata": {"labels": named}}, self.story.client, NODE_PATH)


@pytest.fixture
def house(story: Story) -> Iterator[House]:
    one = House(story)
    yield one
    one.label(nvidia_com__gpu_product=None)
    one.set(pods="500", **{GPU: "0"})


@pytest.mark.case("T12", "R31")
def test_without_room_nothing_is_made_and_the_rollout_goes_on_by_itself_when_there_is_some(
    story: Story, house: House
) -> None:
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0")
        house.fill()
        story.ask_for("1.1.0")
        status = story.wait_for(phase="Pending", reason="InsufficientCapacity")
        assert "need=1 × (pods 1) free=room for 0 (fake-node: pods 0)" in status["message"]
        story.pause(3)
        assert story.deployment("green") is None
        story.ask_for("1.2.0")
        house.fill(1)
        story.wait_until_serving("1.2.0")
    assert traffic.versions == ["1.0.0", "1.2.0"]
    assert traffic.lost == 0


def test_a_breach_after_recreate_is_gone_back_from_by_the_slow_way(story: Story, house: House) -> None:
    story.behave("1.1.0", slow=0.4)
    story.create("1.0.0", replicas=1, strategy="Recreate")
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0")
        house.fill()
        story.ask_for("1.1.0")
        story.wait("the rejection", lambda: bool(story.status().get("rejected")))
        story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
    assert traffic.versions == ["1.0.0", "1.1.0", "1.0.0"]
    assert "returning" not in story.status()


def test_a_profile_that_no_node_has_waits_and_goes_on_when_a_node_has_it(story: Story, house: House) -> None:
    house.label(nvidia_com__gpu_product="NVIDIA-A100-SXM4-40GB")
    house.set(nvidia_com__gpu="8")
    story.create("1.0.0", replicas=1)
    story.edit(hardwareProfile={"gpu": "NVIDIA-L4", "count": 1})
    status = story.wait_for(phase="Pending", reason="NoMatchingNodes")
    assert "no node has 1 × NVIDIA-L4" in status["message"]
    assert "NVIDIA-A100-SXM4-40GB (fake-node)" in status["message"]
    assert not status.get("rejected")
    house.label(nvidia_com__gpu_product="NVIDIA-L4")
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")


def test_gpus_without_a_name_are_ambiguous(story: Story, house: House) -> None:
    house.set(nvidia_com__gpu="8")
    story.create("1.0.0", replicas=1)
    story.edit(hardwareProfile={"gpu": "NVIDIA-L4", "count": 1})
    status = story.wait_for(phase="Pending", reason="ProfileAmbiguous")
    assert "gpu-feature-discovery" in status["message"]
    story.edit(model=model("1.0.0"), hardwareProfile={"gpu": "none", "count": 0})
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")
