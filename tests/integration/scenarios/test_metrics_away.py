"""Metrics that cannot be read, before the flip and after it."""

import pytest

from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import behave_now, serving, soaking

pytestmark = pytest.mark.control_plane

SOURCES = {"the pods are dark": {}, "prometheus is the only source and is not there": {"source": "Prometheus"}}


@pytest.mark.case("S01")
@pytest.mark.parametrize("metrics", SOURCES.values(), ids=SOURCES)
def test_without_metrics_nothing_is_flipped_and_one_event_says_so(story: Story, metrics: dict[str, str]) -> None:
    story.behave("1.1.0", dark=True)
    with story.traffic() as traffic:
        active = serving(story)
        story.edit(rollout={"metrics": metrics})
        story.ask_for("1.1.0")
        story.wait_for(phase="Held", reason="MetricsUnavailable")
        story.pause(3)
        assert story.condition("MetricsAvailable") == ("False", "MetricsUnavailable")
    assert story.selector() == active
    assert story.told().count("MetricsUnavailable") == 1
    assert not story.status().get("rejected")
    assert (traffic.lost, traffic.versions) == (0, ["1.0.0"])


@pytest.mark.case("S01")
def test_after_the_hold_the_policy_sends_the_candidate_away(story: Story) -> None:
    story.behave("1.1.0", dark=True)
    with story.traffic() as traffic:
        active = serving(story)
        story.edit(rollout={"soak": {"holdTimeoutSeconds": 2, "onNoData": "Rollback"}})
        story.ask_for("1.1.0")
        assert story.wait_until_rejected("1.1.0")["reason"] == "MetricsUnavailable"
        story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
    assert story.selector() == active
    assert (traffic.lost, traffic.versions) == (0, ["1.0.0"])


@pytest.mark.case("S01")
def test_after_the_hold_the_policy_may_promote_unjudged(story: Story) -> None:
    story.behave("1.1.0", dark=True)
    with story.traffic() as traffic:
        serving(story)
        story.edit(rollout={"soak": {"holdTimeoutSeconds": 2, "onNoData": "Promote"}})
        story.ask_for("1.1.0")
        story.wait_until_serving("1.1.0")
    assert story.condition("Verified") == ("False", "NoData")
    assert traffic.lost == 0


@pytest.mark.case("S02")
def test_the_soak_counts_no_second_without_metrics_and_goes_on_when_they_are_back(story: Story) -> None:
    with story.traffic() as traffic:
        serving(story)
        active = soaking(story, minSeconds=4)
        behave_now(story.pods(active), dark=True)
        story.wait("the hold", lambda: "heldSince" in story.status()["attempt"])
        before = story.status()["attempt"]["observedSeconds"]
        story.pause(4)
        assert story.status()["attempt"]["observedSeconds"] == before
        assert story.selector() == active
        behave_now(story.pods(active), dark=False)
        story.wait_until_serving("1.1.0")
    assert story.condition("Verified") == ("True", "Verified")
    assert traffic.lost == 0


@pytest.mark.case("S02")
def test_pods_that_die_while_metrics_are_away_send_the_service_back(story: Story) -> None:
    with story.traffic() as traffic:
        serving(story)
        active = soaking(story)
        behave_now(story.pods(active), dark=True)
        story.wait("the hold", lambda: "heldSince" in story.status()["attempt"])
        for pod in story.pods(active):
            pod.ready = False
        assert story.wait_until_rejected("1.1.0", 10)["reason"] == "PodsNotReady"
        story.wait_until_serving("1.0.0")
    assert story.selector() != active
    assert traffic.versions == ["1.0.0", "1.1.0", "1.0.0"]
