"""The scale subresource, with the real autoscaler's controller and with kubectl."""

from typing import Any

import pytest
from backstay_cluster.control_plane import ControlPlane
from backstay_contract import names

from tests.integration.harness.api import done
from tests.integration.harness.story import NAME, Story

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]


def scale(story: Story) -> Json:
    return done(story.client.get(f"{story.path}/scale"))


def selected(story: Story) -> set[str]:
    """The pods that an autoscaler counts."""
    query = {"labelSelector": scale(story)["status"]["selector"]}
    path = f"/api/v1/namespaces/{story.namespace}/pods"
    return {pod["metadata"]["name"] for pod in done(story.client.get(path, params=query))["items"]}


@pytest.mark.case("R69", "T21")
def test_kubectl_scale_changes_the_active_pods_and_is_no_rollout(equipped: Story, control_plane: ControlPlane) -> None:
    equipped.create("1.0.0", replicas=1)
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        attempts = equipped.status()["attempts"]
        control_plane.kubectl("scale", "mdep/chat", "--replicas=3", f"--namespace={equipped.namespace}")
        equipped.wait_for(ready="3/3")
        assert (scale(equipped)["spec"]["replicas"], scale(equipped)["status"]["replicas"]) == (3, 3)
        assert equipped.status()["attempts"] == attempts


def test_an_autoscaler_counts_the_active_colours_pods_and_no_other(equipped: Story) -> None:
    equipped.behave("1.1.0", smoke_seconds=2)
    equipped.create("1.0.0", soak={"minSeconds": 3})
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        equipped.ask_for("1.1.0")
        equipped.wait("two colours", lambda: len(equipped.pods("green")) == 2)
        assert selected(equipped) == {pod.name for pod in equipped.pods("blue")}
        equipped.wait_for(phase="Soaking")
        equipped.wait("the other colour", lambda: selected(equipped) == {pod.name for pod in equipped.pods("green")}, 3)


def test_the_real_autoscaler_scales_it(equipped: Story) -> None:
    equipped.create("1.0.0", replicas=1)
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        target = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": NAME}
        autoscaler = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": NAME},
            "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 4},
        }
        path = f"/apis/autoscaling/v2/namespaces/{equipped.namespace}/horizontalpodautoscalers"
        done(equipped.client.post(path, json=autoscaler))

        def able() -> bool:
            status = done(equipped.client.get(f"{path}/{NAME}")).get("status") or {}
            conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
            return conditions.get("AbleToScale") == "True"

        equipped.wait("an autoscaler that is able to", able, 60)
        equipped.wait_for(ready="2/2", seconds=60)
