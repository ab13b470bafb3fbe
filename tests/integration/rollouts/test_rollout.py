"""Whole rollouts on a real API server, with the real scheduler and controllers, and a node that plays the kubelet."""

import pytest
from backstay_contract.termination import GaveUp, Termination

from tests.integration.harness.story import NAME, Story, digest

pytestmark = pytest.mark.control_plane


@pytest.mark.case("R10", "T20")
def test_the_first_revision_comes_into_service(story: Story) -> None:
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        status = story.wait_until_serving("1.0.0")
    assert story.selector() == status["active"]["colour"]
    assert story.selector("chat-preview") == "none"
    assert (status["readyReplicas"], status["observedGeneration"]) == (2, 1)
    assert status["history"][-1]["verified"] is True
    assert traffic.versions == ["1.0.0"]


@pytest.mark.case("R4", "T04", "R33")
def test_a_second_revision_replaces_the_first_without_losing_a_request(story: Story) -> None:
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0")
        story.ask_for("1.1.0")
        status = story.wait_until_serving("1.1.0")
        story.wait_until_at_rest()
    assert traffic.versions == ["1.0.0", "1.1.0"]
    assert traffic.lost == 0
    assert {entry["version"]: entry["verified"] for entry in status["history"]} == {"1.0.0": True, "1.1.0": True}
    assert {verdict["metric"]: verdict["verdict"] for verdict in status["verdicts"]}["p99LatencyMs"] == "Pass"
    assert story.selector("chat-preview") == "none"


@pytest.mark.case("R26", "R28", "R29")
def test_a_slow_revision_is_sent_back_by_itself_and_is_not_tried_again(story: Story) -> None:
    story.behave("1.1.0", slow=0.4)
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0")
        story.ask_for("1.1.0")
        story.wait("the way back", lambda: bool(story.status().get("rejected")))
        status = story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
        (rejected,) = status["rejected"]
        assert (rejected["digest"], rejected["reason"], rejected["metric"]) == (
            digest("1.1.0"),
            "Breach",
            "p99LatencyMs",
        )
        assert rejected["limit"] == 200
        assert rejected["observed"] > 0.2
        attempts = status["attempts"]

        story.annotate(note="apply the same again")
        story.edit(replicas=3)
        story.wait("three replicas", lambda: story.replicas(story.selector()) == 3)
        story.operator.kill()
        story.operator.start()
        story.operator.wait_until_healthy()
        story.pause(3)
        assert story.status()["attempts"] == attempts
        assert story.status()["active"]["version"] == "1.0.0"
        assert story.replicas("green" if story.selector() == "blue" else "blue") == 0
    assert traffic.versions == ["1.0.0", "1.1.0", "1.0.0"]
    assert traffic.lost == 0


@pytest.mark.case("R23")
def test_a_retry_token_opens_a_new_attempt_with_no_old_evidence(story: Story) -> None:
    story.behave("1.1.0", slow=0.4)
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")
        story.ask_for("1.1.0")
        story.wait("the way back", lambda: bool(story.status().get("rejected")))
        first = story.wait_until_serving("1.0.0")["attempt"]["id"]
        story.behave("1.1.0")
        story.edit(rollout={"retryToken": "again"})
        status = story.wait_until_serving("1.1.0")
    assert status["attempt"]["id"] != first
    assert all(verdict["k"] == 0 for verdict in status["verdicts"])


@pytest.mark.case("R77", "R83", "T27")
def test_a_wrong_digest_in_storage_rejects_the_candidate_and_the_active_colour_serves_on(story: Story) -> None:
    said = Termination(
        reason=GaveUp.DIGEST_MISMATCH,
        message="model.safetensors: expected sha256 aa, got bb",
        path="model.safetensors",
        expected="aa",
        actual="bb",
    )
    story.behave("1.1.0", gives_up=said)
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0")
        active = story.selector()
        story.ask_for("1.1.0")
        story.wait("the rejection", lambda: bool(story.status().get("rejected")))
        status = story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
    assert story.selector() == active
    assert (status["rejected"][0]["reason"], status["reason"]) == ("DigestMismatch", "DigestMismatch")
    assert status["lastFailure"]["exitCode"] == 10
    assert "expected sha256 aa, got bb" in status["lastFailure"]["message"]
    assert traffic.versions == ["1.0.0"]
    assert traffic.lost == 0
    assert "DigestMismatch" in {event["reason"] for event in story.events()}


@pytest.mark.case("R10", "T07")
def test_a_pod_that_names_another_digest_never_gets_traffic(story: Story) -> None:
    story.behave("1.1.0", says_digest=digest("another"))
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0")
        story.ask_for("1.1.0")
        story.wait("the rejection", lambda: bool(story.status().get("rejected")))
    assert story.status()["rejected"][0]["reason"] == "SmokeFailed"
    assert traffic.versions == ["1.0.0"]


def test_a_slow_smoke_inference_delays_only_the_flip(story: Story) -> None:
    story.behave("1.0.0", smoke_seconds=4)
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_for(phase="Checking")
        assert story.selector() == "none"
        story.wait_until_serving("1.0.0")
    (pod,) = story.kubelet.pods(NAME, story.selector())
    assert pod.smokes == 1


@pytest.mark.case("T19")
def test_pods_that_are_killed_after_the_flip_send_it_back_whatever_the_metrics_say(story: Story) -> None:
    story.behave("1.1.0", dies_after=20)
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")
        story.ask_for("1.1.0")
        story.wait("the way back", lambda: bool(story.status().get("rejected")))
        status = story.wait_until_serving("1.0.0")
    assert status["rejected"][0]["reason"] == "OOMKilled"


@pytest.mark.case("R77")
def test_an_image_that_does_not_come_rejects_the_candidate_with_the_kubelets_words(story: Story) -> None:
    story.behave("1.0.0", waits=("ImagePullBackOff", "back-off pulling image"))
    story.create("1.0.0")
    status = story.wait_for(phase="Failed")
    assert status["reason"] == "ImagePullFailed"
    assert "back-off pulling image" in status["rejected"][-1]["message"]


def test_dark_metrics_hold_the_flip_and_it_goes_on_when_they_are_back(story: Story) -> None:
    story.behave("1.0.0", dark=True)
    story.create("1.0.0")
    status = story.wait_for(phase="Held")
    assert {c["type"]: c["status"] for c in status["conditions"]}["MetricsAvailable"] == "False"
    assert story.selector() == "none"
    for pod in story.kubelet.pods(NAME, "blue"):
        pod.behaviour = pod.behaviour.__class__()
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")


@pytest.mark.case("R19")
def test_a_stream_under_way_outlives_the_scale_down_delay(story: Story) -> None:
    story.behave("1.0.0", stream_seconds=8)
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")
        (pod,) = story.kubelet.pods(NAME, story.selector())
        pod.holds_until = pod.started + 3600
        story.ask_for("1.1.0")
        story.wait_until_serving("1.1.0")
        story.pause(3)
        assert story.kubelet.pods(NAME, "blue") == [pod]
        assert pod.mode == "standby"
        pod.holds_until = 1
        story.wait_until_at_rest()


@pytest.mark.case("R20")
def test_a_selector_that_somebody_else_changes_is_put_back_and_told(story: Story) -> None:
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")
        colour = story.selector()
        story.select("green" if colour == "blue" else "blue")
        story.wait("the selector", lambda: story.selector() == colour, 5)
    story.wait("the event", lambda: "SelectorRestored" in {event["reason"] for event in story.events()})


def test_a_service_that_somebody_deletes_comes_back_with_its_colour(story: Story) -> None:
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")
    colour = story.selector()
    story.client.delete(f"/api/v1/namespaces/{story.namespace}/services/{NAME}")
    story.wait("the Service", lambda: story.selector() == colour, 10)


@pytest.mark.case("T01")
def test_a_spec_put_back_before_the_flip_drops_the_candidate_only(story: Story) -> None:
    story.behave("1.1.0", start_seconds=3600)
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0")
        story.ask_for("1.1.0")
        story.wait_for(phase="Starting")
        story.ask_for("1.0.0")
        status = story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
    assert status["attempt"]["outcome"] == "SpecReverted"
    assert traffic.lost == 0
    assert not status.get("rejected")


@pytest.mark.case("T10")
def test_an_invalid_stored_spec_is_said_and_the_active_colour_serves_on(story: Story) -> None:
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0")
        with story.without_validation():
            story.edit(model={**story.get()["spec"]["model"], "uri": "ftp://nowhere"})
            status = story.wait_for(reason="SpecInvalid")
            assert "model.uri" in status["message"]
        story.ask_for("1.0.0")
        story.wait_for(phase="Serving", reason="Verified")
    assert traffic.lost == 0
    assert "SpecValid" not in {condition["type"] for condition in story.status()["conditions"]}


def test_manual_promotion_waits_for_the_attempts_own_name(story: Story) -> None:
    story.create("1.0.0", replicas=1, promotion="Manual")
    attempt = story.wait_for(phase="AwaitingPromotion")["attempt"]["id"]
    story.edit(rollout={"promote": "another-1"})
    story.pause(2)
    assert story.selector() == "none"
    smokes = story.kubelet.pods(NAME, "blue")[0].smokes
    story.edit(rollout={"promote": attempt})
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")
    assert story.kubelet.pods(NAME, "blue")[0].smokes == smokes == 1
