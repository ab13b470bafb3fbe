"""Rollouts where the cluster has no room for two colours."""

from typing import Any

import pytest

from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import SHORT_SOAK

pytestmark = [pytest.mark.control_plane, pytest.mark.case("S15")]

ROOMY = {"resources": {"requests": {"cpu": "40"}}}
"""One such pod fits the node, and no second one."""


def serve_one(story: Story, **rollout: Any) -> str:
    story.create("1.0.0", 1, soak=SHORT_SOAK, **rollout)
    story.edit(serving=ROOMY)
    story.wait_until_serving("1.0.0", 60)
    story.wait_until_at_rest(60)
    return story.selector()


@pytest.mark.case("T12")
def test_without_room_nothing_is_created_and_the_rollout_goes_on_when_there_is_some(story: Story) -> None:
    with story.traffic() as traffic:
        active = serve_one(story)
        story.ask_for("1.1.0")
        status = story.wait_for(phase="Pending", reason="InsufficientCapacity")
        story.pause(3)
        assert "cpu" in status["message"]
        assert story.selector() == active
        story.kubelet.room["cpu"] = "128"
        story.wait_until_serving("1.1.0", 60)
    assert traffic.lost == 0
    assert not story.status().get("rejected")


def test_recreate_needs_no_room_for_two(story: Story) -> None:
    with story.traffic() as traffic:
        serve_one(story, strategy="Recreate")
        story.ask_for("1.1.0")
        story.wait_until_serving("1.1.0", 60)
        story.wait_until_at_rest()
    assert traffic.versions[-1] == "1.1.0"
    assert None not in traffic.selectors


def test_a_recreated_candidate_that_fails_brings_the_old_one_up_again(story: Story) -> None:
    story.behave("1.1.0", waits=("ImagePullBackOff", "back-off"))
    with story.traffic() as traffic:
        serve_one(story, strategy="Recreate")
        story.ask_for("1.1.0")
        story.wait_until_rejected("1.1.0", 30)
        story.wait_until_serving("1.0.0", 60)
        story.wait("its pods", lambda: story.status()["readyReplicas"] == 1)
    assert traffic.versions == ["1.0.0"]
    assert None not in traffic.selectors
