"""Too few requests for a verdict."""

import pytest

from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import other, serving

pytestmark = [pytest.mark.control_plane, pytest.mark.case("S03")]

SOAK = {"minSeconds": 1, "maxSeconds": 4, "intervalSeconds": 0.3}


def starve(story: Story, policy: str) -> str:
    """1.1.0 is active and few ask it; its colour."""
    with story.traffic():
        serving(story)
    story.edit(rollout={"soak": {**SOAK, "onInsufficientData": policy}})
    story.ask_for("1.1.0")
    story.wait_for(phase="Soaking")
    return story.selector()


def test_both_colours_stay_to_the_end_of_the_soak_and_the_policy_promotes_unverified(story: Story) -> None:
    active = starve(story, "Promote")
    with story.traffic(per_second=5):
        story.pause(2)
        assert (story.replicas(active), story.replicas(other(active))) == (1, 1)
        story.wait_until_serving("1.1.0")
    verified = next(one for one in story.status()["conditions"] if one["type"] == "Verified")
    assert (verified["status"], verified["reason"]) == ("False", "InsufficientData")
    assert story.told().count("InsufficientData") == 1
    verdict = next(one for one in story.status()["verdicts"] if one["metric"] == "p99LatencyMs")
    assert verdict["verdict"] == "Inconclusive"
    assert 0 < verdict["n"] < 100


def test_the_policy_may_hold_both_colours_until_a_person_decides(story: Story) -> None:
    active = starve(story, "Hold")
    with story.traffic(per_second=5):
        story.wait_for(phase="Held", reason="InsufficientData")
        story.pause(3)
    assert (story.replicas(active), story.replicas(other(active))) == (1, 1)
    assert story.told().count("InsufficientData") == 1
    assert story.selector() == active


def test_the_policy_may_go_back_and_the_digest_is_rejected(story: Story) -> None:
    active = starve(story, "Rollback")
    with story.traffic(per_second=5):
        assert story.wait_until_rejected("1.1.0")["reason"] == "InsufficientData"
        story.wait_until_serving("1.0.0")
    assert story.selector() == other(active)
    assert story.told().count("InsufficientData") == 1
