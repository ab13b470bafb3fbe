"""What people may ask for while an attempt is open."""

import pytest

from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import BEFORE_THE_FLIP, other, serving, soaking

pytestmark = pytest.mark.control_plane


@pytest.mark.case("S18")
def test_manual_promotion_names_the_attempt_and_a_stale_id_does_nothing(story: Story) -> None:
    with story.traffic() as traffic:
        active = serving(story)
        old = story.status()["attempt"]["id"]
        story.edit(rollout={"promotion": "Manual", "promote": old})
        story.ask_for("1.1.0")
        attempt = story.wait_for(phase="AwaitingPromotion")["attempt"]["id"]
        story.pause(3)
        assert (story.selector(), attempt != old) == (active, True)
        story.edit(rollout={"promote": attempt})
        story.wait_until_serving("1.1.0")
    assert story.selector() == other(active)
    assert traffic.lost == 0


@pytest.mark.case("S18", "R40")
@pytest.mark.parametrize("phase", [*BEFORE_THE_FLIP, "AwaitingPromotion"])
def test_an_attempt_can_be_aborted_before_the_flip(story: Story, phase: str) -> None:
    story.behave("1.1.0", **BEFORE_THE_FLIP.get(phase, {}))
    with story.traffic() as traffic:
        active = serving(story)
        if phase == "AwaitingPromotion":
            story.edit(rollout={"promotion": "Manual"})
        story.ask_for("1.1.0")
        attempt = story.wait_for(phase=phase)["attempt"]["id"]
        story.edit(rollout={"abort": attempt})
        assert story.wait_until_rejected("1.1.0", 10)["reason"] == "Aborted"
        story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
    assert story.selector() == active
    assert (traffic.lost, traffic.versions) == (0, ["1.0.0"])


@pytest.mark.case("S18", "R40", "R38")
def test_an_abort_in_the_soak_flips_back_at_once_and_a_stale_one_does_nothing(story: Story) -> None:
    with story.traffic() as traffic:
        previous = serving(story)
        story.edit(rollout={"abort": story.status()["attempt"]["id"]})
        active = soaking(story)
        story.pause(2)
        assert story.selector() == active
        story.edit(rollout={"abort": story.status()["attempt"]["id"]})
        story.wait("the way back", lambda: story.selector() == previous, 5)
        assert story.wait_until_rejected("1.1.0")["reason"] == "Aborted"
        story.wait_until_serving("1.0.0")
    assert traffic.lost == 0
