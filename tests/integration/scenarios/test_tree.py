"""The decision tree of the way back, and degraded mode."""

import pytest
from backstay_contract.termination import GaveUp, Termination

from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import behave_now, serving, soaking

pytestmark = pytest.mark.control_plane


@pytest.mark.case("S22", "S23")
def test_after_a_latency_breach_the_previous_revision_serves_cut_answers_until_it_is_passed(story: Story) -> None:
    with story.traffic() as traffic:
        previous = serving(story, replicas=2)
        story.edit(rollback={"watch": {"intervalSeconds": 60, "roundSeconds": 600}})
        active = soaking(story)
        behave_now(story.pods(active), slow=0.5)
        story.wait("the way back", lambda: story.selector() == previous, 15)
        story.wait_until_serving("1.0.0")
        story.wait("cut answers", lambda: {pod.mode for pod in story.pods(previous)} == {"degraded"}, 10)
        assert story.condition("Degraded")[0] == "True"
        kill_one_pod(story, previous)
        story.wait("the pod that took its place", lambda: modes(story, previous) == ["degraded"] * 2, 20)
        story.edit(rollback={"watch": {"intervalSeconds": 0.5, "roundSeconds": 10}})
        story.wait("the end of it", lambda: modes(story, previous) == ["normal"] * 2, 30)
        story.wait("the status", lambda: story.condition("Degraded")[0] == "False", 5)
    assert traffic.lost == 0


@pytest.mark.case("S22")
def test_a_rule_may_keep_the_revision_and_cut_its_answers(story: Story) -> None:
    with story.traffic() as traffic:
        serving(story)
        story.edit(rollback={"rules": [{"on": "p99LatencyMs", "do": "Degrade"}]})
        active = soaking(story)
        behave_now(story.pods(active), slow=0.5)
        story.wait("cut answers", lambda: modes(story, active) == ["degraded"], 15)
        assert story.selector() == active
        assert story.condition("Verified")[0] != "True"
    assert not story.status().get("rejected")
    assert traffic.lost == 0


@pytest.mark.case("S22")
def test_a_rule_may_hold_both_colours_and_leave_the_rest_to_people(story: Story) -> None:
    with story.traffic() as traffic:
        previous = serving(story)
        story.edit(rollback={"rules": [{"on": "p99LatencyMs", "do": "Hold"}]})
        active = soaking(story)
        behave_now(story.pods(active), slow=0.5)
        story.wait_for(phase="Held", reason="Breach")
        story.pause(2)
        assert (story.selector(), story.replicas(previous)) == (active, 1)
        assert story.told().count("Breach") == 1
        story.edit(rollout={"abort": story.status()["attempt"]["id"]})
        story.wait("the way back", lambda: story.selector() == previous, 10)
    assert traffic.lost == 0


@pytest.mark.case("S22")
def test_a_rule_may_name_the_last_verified_revision_which_is_older_than_the_previous(story: Story) -> None:
    rule = {"on": "p99LatencyMs", "do": "Rollback", "to": "LastVerified"}
    with story.traffic():
        serving(story)
    story.edit(rollback={"rules": [rule]}, rollout={"soak": {"minSeconds": 1, "maxSeconds": 2}})
    with story.traffic(per_second=5):
        story.ask_for("1.1.0")
        story.wait_until_serving("1.1.0")
        story.wait_until_at_rest()
    assert story.condition("Verified") == ("False", "InsufficientData")
    with story.traffic() as traffic:
        active = soaking(story, "1.2.0")
        behave_now(story.pods(active), slow=0.5)
        assert story.wait_until_rejected("1.2.0")["reason"] == "Breach"
        story.edit(rollout={"soak": {"minSeconds": 1}})
        story.wait_until_serving("1.0.0", 60)
    assert traffic.versions == ["1.1.0", "1.2.0", "1.1.0", "1.0.0"]
    assert traffic.lost == 0


@pytest.mark.case("S22", "S19")
def test_one_pod_that_comes_up_on_other_hardware_after_the_flip_sends_all_back_to_the_previous(story: Story) -> None:
    said = Termination(reason=GaveUp.HARDWARE_MISMATCH, message="2 GPUs wanted, 1 found", expected="2", actual="1")
    with story.traffic():
        previous = serving(story, replicas=2)
        active = soaking(story)
        story.behave("1.1.0", gives_up=said)
        kill_one_pod(story, active)
        story.wait("the way back", lambda: story.selector() == previous, 10)
        entry = story.wait_until_rejected("1.1.0", 10)
        status = story.wait_until_serving("1.0.0")
    assert entry["reason"] == "HardwareMismatch"
    assert status["active"]["ready"] == 2


def modes(story: Story, colour: str) -> list[str]:
    return [pod.mode for pod in story.pods(colour)]


def kill_one_pod(story: Story, colour: str) -> None:
    pod = story.pods(colour)[0]
    story.client.delete(f"/api/v1/namespaces/{story.namespace}/pods/{pod.name}")
    story.wait("its end", lambda: pod not in story.pods(colour), 10)
