"""What rejects a candidate without any statistics."""

import pytest
from backstay_contract.termination import GaveUp, Termination

from tests.integration.harness.story import Story, digest
from tests.integration.scenarios.steps import serving

pytestmark = [pytest.mark.control_plane, pytest.mark.case("S19")]


@pytest.mark.case("T27", "R77", "R78")
@pytest.mark.parametrize("reason", [GaveUp.HARDWARE_MISMATCH, GaveUp.DIGEST_MISMATCH, GaveUp.MODEL_INVALID])
def test_a_container_that_gives_up_for_good_rejects_the_candidate_with_its_own_words(
    story: Story, reason: GaveUp
) -> None:
    said = Termination(reason=reason, message=f"it says {reason.value} and why", path="x", expected="aa", actual="bb")
    story.behave("1.1.0", gives_up=said)
    with story.traffic() as traffic:
        active = serving(story)
        story.ask_for("1.1.0")
        entry = story.wait_until_rejected("1.1.0", 15)
        status = story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
    assert (entry["reason"], status["lastFailure"]["reason"]) == (reason.value, reason.value)
    assert said.message in status["lastFailure"]["message"]
    assert status["lastFailure"]["exitCode"] > 0
    assert reason.value in story.told()
    assert story.selector() == active
    assert (traffic.lost, traffic.versions) == (0, ["1.0.0"])


@pytest.mark.parametrize(
    ("waits", "reason"),
    [(("ImagePullBackOff", "back-off pulling image"), "ImagePullFailed")],
)
def test_an_image_that_does_not_come_rejects_the_candidate(story: Story, waits: tuple[str, str], reason: str) -> None:
    story.behave("1.1.0", waits=waits)
    with story.traffic() as traffic:
        serving(story)
        story.ask_for("1.1.0")
        entry = story.wait_until_rejected("1.1.0", 15)
        story.wait_until_serving("1.0.0")
    assert entry["reason"] == reason
    assert waits[1] in entry["message"]
    assert (traffic.lost, traffic.versions) == (0, ["1.0.0"])


@pytest.mark.case("T06", "T19")
@pytest.mark.parametrize(
    ("how", "reason"),
    [({"dies_after": 0}, "OOMKilled"), ({"crashes": 3}, "CrashLoop")],
    ids=["killed for memory", "crash loop"],
)
def test_a_container_that_dies_before_the_flip_rejects_the_candidate(
    story: Story, how: dict[str, int], reason: str
) -> None:
    story.behave("1.1.0", **how)
    with story.traffic() as traffic:
        serving(story)
        story.ask_for("1.1.0")
        entry = story.wait_until_rejected("1.1.0", 20)
        status = story.wait_until_serving("1.0.0")
    assert entry["reason"] == reason
    assert status["lastFailure"]["exitCode"] == {"OOMKilled": 137, "CrashLoop": 1}[reason]
    assert (traffic.lost, traffic.versions) == (0, ["1.0.0"])


@pytest.mark.case("T07", "R10")
@pytest.mark.parametrize("how", [{"says_digest": digest("another")}, {"breaks": True}], ids=["digest", "NaN"])
def test_a_smoke_inference_that_answers_wrongly_rejects_the_candidate(story: Story, how: dict[str, object]) -> None:
    story.behave("1.1.0", **how)
    with story.traffic() as traffic:
        serving(story)
        story.ask_for("1.1.0")
        entry = story.wait_until_rejected("1.1.0", 15)
    assert entry["reason"] == "SmokeFailed"
    assert (traffic.lost, traffic.versions) == (0, ["1.0.0"])


@pytest.mark.case("T07", "T08")
def test_pods_that_run_and_are_never_ready_are_rejected_at_the_deadline(story: Story) -> None:
    story.behave("1.1.0", unready=True)
    with story.traffic() as traffic:
        active = serving(story)
        story.edit(rollout={"progressDeadlineSeconds": 3})
        story.ask_for("1.1.0")
        entry = story.wait_until_rejected("1.1.0", 20)
        story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
        story.ask_for("1.2.0")
        story.wait_until_serving("1.2.0")
    assert entry["reason"] == "ProgressDeadlineExceeded"
    assert story.selector() != active
    assert traffic.lost == 0
