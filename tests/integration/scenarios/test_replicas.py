"""Replicas that are edited while a rollout is under way."""

import pytest

from tests.integration.harness.story import Story, model
from tests.integration.scenarios.steps import behave_now, serving, soaking

pytestmark = [pytest.mark.control_plane, pytest.mark.case("S14")]


@pytest.mark.case("R64")
def test_replicas_and_version_in_one_edit_leave_the_active_colour_alone_until_the_flip(story: Story) -> None:
    story.behave("1.1.0", start_seconds=2)
    with story.traffic() as traffic:
        active = serving(story, replicas=2)
        story.edit(model=model("1.1.0"), replicas=1)
        story.wait_for(phase="Starting")
        assert story.replicas(active) == 2
        story.wait_until_serving("1.1.0")
        story.wait("one replica", lambda: story.replicas(story.selector()) == 1)
    assert traffic.lost == 0


def test_more_replicas_reach_the_candidate_at_once(story: Story) -> None:
    story.behave("1.1.0", start_seconds=5)
    with story.traffic() as traffic:
        serving(story)
        story.ask_for("1.1.0")
        story.wait_for(phase="Starting")
        colour = story.status()["attempt"]["colour"]
        story.edit(replicas=3)
        story.wait("the candidate's replicas", lambda: story.replicas(colour) == 3, 5)
        story.wait_until_serving("1.1.0")
        story.wait("all ready", lambda: story.status()["readyReplicas"] == 3)
    assert traffic.lost == 0


def test_a_breach_goes_back_although_replicas_are_edited_in_the_same_moment(story: Story) -> None:
    with story.traffic() as traffic:
        previous = serving(story)
        active = soaking(story)
        story.behave("1.1.0", slow=0.5)
        behave_now(story.pods(active), slow=0.5)
        story.edit(replicas=2)
        story.wait("the way back", lambda: story.selector() == previous, 15)
        story.wait_until_serving("1.0.0")
        story.wait("two replicas", lambda: story.replicas(previous) == 2)
    assert story.status()["rejected"][0]["reason"] == "Breach"
    assert traffic.lost == 0
