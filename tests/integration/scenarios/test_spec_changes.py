"""A spec that changes while a rollout is under way."""

import pytest

from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import BEFORE_THE_FLIP, behave_now, other, serving, soaking

pytestmark = pytest.mark.control_plane


@pytest.mark.case("S04", "R31")
def test_a_third_revision_drops_the_candidate_and_the_way_back_is_the_last_verified(story: Story) -> None:
    story.behave("1.1.0", start_seconds=3600)
    story.behave("1.2.0", slow=0.4)
    with story.traffic() as traffic:
        active = serving(story)
        story.ask_for("1.1.0")
        story.wait_for(phase="Starting")
        story.ask_for("1.2.0")
        story.wait("the third one's attempt", lambda: story.status()["attempt"]["version"] == "1.2.0")
        assert story.selector() == active
        assert story.wait_until_rejected("1.2.0")["reason"] == "Breach"
        status = story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
    assert "SpecChanged" in story.told()
    assert status["attempts"] == 3
    assert [one["version"] for one in status["rejected"]] == ["1.2.0"]
    assert traffic.versions == ["1.0.0", "1.2.0", "1.0.0"]
    assert traffic.lost == 0


@pytest.mark.case("S05", "R31")
def test_in_the_soak_a_third_revision_waits_and_the_verified_colour_is_not_overwritten(story: Story) -> None:
    with story.traffic() as traffic:
        verified = serving(story)
        active = soaking(story, minSeconds=4)
        story.ask_for("1.2.0")
        story.wait_for(phase="Soaking", reason="Queued")
        assert {pod.version for pod in story.pods(verified)} == {"1.0.0"}
        assert story.selector() == active
        story.edit(rollout={"soak": {"minSeconds": 1}})
        story.wait_until_serving("1.2.0", 60)
    history = {one["version"]: one["verified"] for one in story.status()["history"]}
    assert history == {"1.0.0": True, "1.1.0": True, "1.2.0": True}
    assert traffic.versions == ["1.0.0", "1.1.0", "1.2.0"]
    assert traffic.lost == 0


@pytest.mark.case("S05")
def test_where_the_third_revision_supersedes_the_service_goes_back_first(story: Story) -> None:
    with story.traffic() as traffic:
        verified = serving(story, whenSpecChangesInSoak="Supersede")
        active = soaking(story)
        story.ask_for("1.2.0")
        story.wait("the flip back", lambda: story.selector() == verified, 10)
        story.edit(rollout={"soak": {"minSeconds": 1}})
        story.wait("the third one's attempt", lambda: story.status()["attempt"]["version"] == "1.2.0")
        assert story.status()["attempt"]["colour"] == active
        story.wait_until_serving("1.2.0", 60)
    assert traffic.versions == ["1.0.0", "1.1.0", "1.0.0", "1.2.0"]
    assert traffic.lost == 0
    assert not story.status().get("rejected")


@pytest.mark.case("S06", "T01")
@pytest.mark.parametrize("phase", [*BEFORE_THE_FLIP, "AwaitingPromotion"])
def test_a_spec_put_back_before_the_flip_drops_the_candidate(story: Story, phase: str) -> None:
    story.behave("1.1.0", **BEFORE_THE_FLIP.get(phase, {}))
    with story.traffic() as traffic:
        active = serving(story)
        if phase == "AwaitingPromotion":
            story.edit(rollout={"promotion": "Manual"})
        story.ask_for("1.1.0")
        story.wait_for(phase=phase)
        story.ask_for("1.0.0")
        status = story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
    assert status["attempt"]["outcome"] == "SpecReverted"
    assert story.selector() == active
    assert not status.get("rejected")
    assert (traffic.lost, traffic.versions) == (0, ["1.0.0"])


@pytest.mark.case("S06", "T01")
@pytest.mark.parametrize("held", [False, True], ids=["in the soak", "while it is held"])
def test_a_spec_put_back_after_the_flip_goes_back_and_the_candidate_ends_after_its_requests(
    story: Story, held: bool
) -> None:
    with story.traffic() as traffic:
        before = serving(story)
        active = soaking(story, onNoData="Hold", holdTimeoutSeconds=1)
        if held:
            behave_now(story.pods(active), dark=True)
            story.wait_for(phase="Held")
        (pod,) = story.pods(active)
        pod.holds_until = pod.started + 3600
        story.ask_for("1.0.0")
        story.wait("the flip back", lambda: story.selector() == before, 10)
        status = story.wait_until_serving("1.0.0")
        story.pause(3)
        assert story.pods(active) == [pod]
        pod.holds_until = 1
        story.wait_until_at_rest()
    assert status["attempt"]["outcome"] == "SpecReverted"
    assert not status.get("rejected")
    assert traffic.lost == 0
    assert story.replicas(other(before)) == 0
