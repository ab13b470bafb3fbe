"""What stands beside the pods, on a real API server with its real controllers."""

from typing import Any

import pytest
from backstay_contract import names

from tests.integration.harness.api import done
from tests.integration.harness.monitoring import GROUP
from tests.integration.harness.story import NAME, Story

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
PATHS = {
    "poddisruptionbudgets": "/apis/policy/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "podmonitors": f"/apis/{GROUP}/v1",
    "prometheusrules": f"/apis/{GROUP}/v1",
}


def found(story: Story, plural: str) -> dict[str, Json]:
    """Objects of the story's namespace, by name; empty where the API server does not know the kind."""
    answer = story.client.get(f"{PATHS[plural]}/namespaces/{story.namespace}/{plural}")
    return {} if answer.status_code == 404 else {one["metadata"]["name"]: one for one in done(answer)["items"]}


def budgets(story: Story) -> set[str]:
    return set(found(story, "poddisruptionbudgets"))


@pytest.mark.case("R70")
def test_who_serves_has_a_disruption_budget_at_once_and_a_candidate_has_none(equipped: Story) -> None:
    equipped.behave("1.1.0", smoke_seconds=2)
    equipped.create("1.0.0", soak={"minSeconds": 3})
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        assert budgets(equipped) == {"chat-blue"}
        equipped.ask_for("1.1.0")
        equipped.wait("the candidate's pods", lambda: len(equipped.pods("green")) == 2)
        assert budgets(equipped) == {"chat-blue"}
        equipped.wait_for(phase="Soaking")
        equipped.wait("the winner's budget", lambda: budgets(equipped) == {"chat-blue", "chat-green"}, 2)
        equipped.wait_until_serving("1.1.0")
        equipped.wait("the end of the loser's budget", lambda: budgets(equipped) == {"chat-green"})


def evicted(story: Story, pod: str) -> int:
    """What the API server answers to an eviction, as a drain asks for it."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": story.namespace}}
    return story.client.post(f"/api/v1/namespaces/{story.namespace}/pods/{pod}/eviction", json=body).status_code


def allowed(story: Story, budget: str) -> int:
    """How many pods the disruption controller would let go."""
    return int((found(story, "poddisruptionbudgets")[budget].get("status") or {}).get("disruptionsAllowed", 0))


@pytest.mark.case("R70")
def test_a_drain_takes_one_pod_after_the_other_and_the_only_pod_too(equipped: Story) -> None:
    equipped.create("1.0.0", replicas=2)
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        equipped.wait("the disruption controller", lambda: allowed(equipped, "chat-blue") == 1)
        first, second = (pod.name for pod in equipped.pods("blue"))
        assert evicted(equipped, first) == 201
        assert evicted(equipped, second) == 429
        equipped.wait("the replacement", lambda: equipped.status().get("ready") == "2/2")
        equipped.edit(replicas=1)
        equipped.wait("one pod", lambda: equipped.status().get("ready") == "1/1" and len(equipped.pods("blue")) == 1)
        equipped.wait("the disruption controller", lambda: allowed(equipped, "chat-blue") == 1)
        assert evicted(equipped, equipped.pods("blue")[0].name) == 201


@pytest.mark.case("R70")
def test_a_broken_pod_holds_up_no_drain(equipped: Story) -> None:
    equipped.create("1.0.0", replicas=2)
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
    for pod in equipped.pods("blue"):
        pod.ready = False
    equipped.wait("none allowed", lambda: allowed(equipped, "chat-blue") == 0)
    assert [evicted(equipped, pod.name) for pod in equipped.pods("blue")] == [201, 201]


def test_the_network_policy_is_made_and_a_resource_can_do_without(equipped: Story) -> None:
    equipped.create("1.0.0", replicas=1)
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        (policy,) = found(equipped, "networkpolicies").values()
        control = next(rule for rule in policy["spec"]["ingress"] if rule["ports"][0]["port"] == 8081)
        assert control["from"][0]["podSelector"] == {"matchLabels": {"app": "backstay"}}
        equipped.edit(networkPolicy="Unmanaged")
        equipped.wait("no policy", lambda: not found(equipped, "networkpolicies"))
        equipped.edit(networkPolicy="Managed")
        equipped.wait("the policy again", lambda: bool(found(equipped, "networkpolicies")))


def test_the_monitor_selects_the_pods_and_the_alerts_name_the_resource(equipped: Story) -> None:
    equipped.create("1.0.0", replicas=1)
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        equipped.wait("a monitor", lambda: bool(found(equipped, "podmonitors")))
        equipped.wait("the rules", lambda: bool(found(equipped, "prometheusrules")))
    (monitor,), (rule,) = (found(equipped, plural).values() for plural in ("podmonitors", "prometheusrules"))
    assert monitor["metadata"]["labels"]["release"] == "kps"
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    for pod in pods(equipped):
        assert selected <= pod["metadata"]["labels"].items()
    alerts = [one for group in rule["spec"]["groups"] for one in group["rules"]]
    assert {one["labels"]["modeldeployment"] for one in alerts} == {NAME}
    assert "> 0.2 " in next(one["expr"] for one in alerts if one["alert"] == "BackstayModelSlow")


def test_what_the_api_server_fills_in_is_not_taken_for_a_difference(equipped: Story) -> None:
    """A new operator knows only what it reads: were there a difference, it would write."""
    equipped.create("1.0.0", replicas=1)
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        equipped.wait_until_at_rest()
        equipped.wait("all of them", lambda: len(versions(equipped)) == len(PATHS))
        before = versions(equipped)
        equipped.operator.stop()
        equipped.operator.start(BACKSTAY_RESYNC_SECONDS="1")
        equipped.operator.wait_until_healthy()
        equipped.wait("passes", lambda: passes(equipped) >= 3)
        assert versions(equipped) == before


def passes(story: Story) -> float:
    lines = story.operator.metrics().splitlines()
    return sum(float(one.split()[-1]) for one in lines if one.startswith("backstay_operator_pass_seconds_count"))


def versions(story: Story) -> list[str]:
    return [one["metadata"]["resourceVersion"] for plural in PATHS for one in found(story, plural).values()]


def test_a_resource_with_the_longest_name_gets_every_child(equipped: Story) -> None:
    name = "m" * names.MAX_NAME
    longest = Story(equipped.client, equipped.namespace, equipped.kubelet, equipped.operator, name)
    longest.create("1.0.0", replicas=1)
    with longest.traffic():
        longest.wait_until_serving("1.0.0")
        longest.ask_for("1.1.0")
        longest.wait_until_serving("1.1.0")
    for plural in PATHS:
        longest.wait(plural, lambda plural=plural: bool(found(longest, plural)))  # type: ignore[misc]
    assert all(pod["metadata"]["name"].startswith(f"{name}-") for pod in pods(longest))
    assert longest.status()["selector"] == names.pods_of(name, "green")


def pods(story: Story) -> list[Json]:
    items: list[Json] = done(story.client.get(f"/api/v1/namespaces/{story.namespace}/pods"))["items"]
    return items
