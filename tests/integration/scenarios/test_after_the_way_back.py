"""What a rejected digest may and may not do, and a breach after the previous colour is gone."""

import pytest

from tests.integration.harness.api import patch
from tests.integration.harness.story import Story, digest
from tests.integration.scenarios.steps import behave_now, other, serving

pytestmark = pytest.mark.control_plane


@pytest.mark.case("S13", "R26")
def test_a_rejected_digest_is_not_tried_again_whatever_is_edited_beside_it(story: Story) -> None:
    story.behave("1.1.0", slow=0.5)
    with story.traffic() as traffic:
        active = serving(story)
        story.ask_for("1.1.0")
        entry = story.wait_until_rejected("1.1.0")
        attempts = story.wait_until_serving("1.0.0")["attempts"]
        story.wait_until_at_rest()
        story.annotate(note="again")
        patch({"metadata": {"labels": {"team": "b"}}}, story.client, story.path)
        story.edit(replicas=2)
        story.edit(serving={"maxNumSeqs": 3})
        story.wait("two replicas", lambda: story.replicas(active) == 2)
        story.pause(3)
        status = story.status()
        assert (status["attempts"], status["active"]["version"]) == (attempts, "1.0.0")
        assert story.replicas(other(active)) == 0
        story.behave("1.1.0")
        story.edit(rollout={"retryToken": "again"})
        story.wait_until_serving("1.1.0")
    assert (entry["digest"], entry["reason"], entry["metric"], entry["limit"]) == (
        digest("1.1.0"), "Breach", "p99LatencyMs", 200)  # fmt: skip
    assert entry["observed"] > 0.2
    assert all(one["k"] == 0 for one in story.status()["verdicts"])
    assert traffic.versions == ["1.0.0", "1.1.0", "1.0.0", "1.1.0"]
    assert traffic.lost == 0


@pytest.mark.case("S12")
def test_a_breach_after_the_previous_colour_is_gone_brings_it_up_again_and_goes_back(story: Story) -> None:
    with story.traffic() as traffic:
        first = serving(story)
        story.edit(rollback={"watch": {"intervalSeconds": 0.5, "roundSeconds": 10}})
        story.ask_for("1.1.0")
        story.wait_until_serving("1.1.0")
        story.wait_until_at_rest()
        active = story.selector()
        behave_now(story.pods(active), slow=0.5)
        story.wait("the old revision's pods", lambda: bool(story.pods(first)), 30)
        assert story.selector() == active
        story.wait("the way back", lambda: story.selector() == first, 30)
        story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
    assert story.status()["rejected"][-1]["version"] == "1.1.0"
    assert traffic.versions == ["1.0.0", "1.1.0", "1.0.0"]
    assert traffic.lost == 0
    assert None not in traffic.selectors


@pytest.mark.case("S12")
def test_where_the_policy_is_to_hold_a_breach_after_the_soak_is_told_and_moves_nothing(story: Story) -> None:
    with story.traffic() as traffic:
        serving(story)
        story.edit(rollback={"afterVerified": "Hold", "watch": {"intervalSeconds": 0.5, "roundSeconds": 10}})
        story.ask_for("1.1.0")
        story.wait_until_serving("1.1.0")
        story.wait_until_at_rest()
        active = story.selector()
        behave_now(story.pods(active), slow=0.5)
        story.wait_for(phase="Held")
        story.pause(2)
        assert story.selector() == active
        assert story.condition("Verified") == ("False", "Breach")
    assert story.told().count("Breach") == 1
    assert traffic.lost == 0
