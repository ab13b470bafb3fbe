"""The losing colour's end, and the flip itself."""

import json
import time

import pytest

from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import other, serving, soaking

pytestmark = pytest.mark.control_plane


@pytest.mark.case("S16", "R2", "R19")
def test_the_losing_colour_is_kept_for_its_delay_and_then_goes(story: Story) -> None:
    with story.traffic() as traffic:
        first = serving(story, scaleDownDelaySeconds=5)
        story.ask_for("1.1.0")
        ended = story.wait_until_serving("1.1.0")["attempt"]["endedAt"]
        began = time.monotonic()
        story.wait("the scale-down", lambda: story.replicas(first) == 0)
    assert time.monotonic() - began > 3
    assert ended
    assert traffic.lost == 0


@pytest.mark.case("S16", "R19")
def test_a_stream_that_is_longer_than_the_delay_is_finished(story: Story) -> None:
    with story.traffic():
        first = serving(story, scaleDownDelaySeconds=1, drainTimeoutSeconds=120)
        (pod,) = story.pods(first)
        pod.holds_until = pod.started + 3600
        story.ask_for("1.1.0")
        story.wait_until_serving("1.1.0")
        story.pause(5)
        assert story.replicas(first) == 1
        pod.holds_until = 1
        story.wait("the scale-down", lambda: story.replicas(first) == 0, 10)


@pytest.mark.case("S16")
def test_a_stream_that_never_ends_holds_its_pod_until_the_cap_only(story: Story) -> None:
    with story.traffic():
        first = serving(story, scaleDownDelaySeconds=1, drainTimeoutSeconds=4)
        (pod,) = story.pods(first)
        pod.holds_until = pod.started + 3600
        story.ask_for("1.1.0")
        story.wait_until_serving("1.1.0")
        story.wait("the scale-down", lambda: story.replicas(first) == 0, 20)
        pod.holds_until = 1


@pytest.mark.case("S17", "R1")
def test_a_flip_is_recorded_in_its_own_write_and_the_service_always_selects_a_colour(story: Story) -> None:
    with story.traffic() as traffic:
        serving(story)
        story.ask_for("1.1.0")
        attempt = story.wait_until_serving("1.1.0")["attempt"]["id"]
    service = story.child("services", story.name)
    assert service is not None
    record = next(json.loads(v) for k, v in service["metadata"]["annotations"].items() if v.startswith('{"to"'))
    assert (record["to"], record["attempt"], record["reason"]) == (story.selector(), attempt, "Promoted")
    assert traffic.selectors == {"none", "blue", "green"}
    assert traffic.lost == 0


@pytest.mark.case("S17", "R20")
def test_a_selector_that_somebody_empties_is_put_back(story: Story) -> None:
    with story.traffic():
        active = serving(story)
        story.select("nobody")
        story.wait("the selector", lambda: story.selector() == active, 5)
    story.wait("the event", lambda: "SelectorRestored" in story.told())


@pytest.mark.case("S21")
def test_after_a_flip_and_after_a_way_back_the_loser_sends_its_connections_away(story: Story) -> None:
    with story.traffic():
        first = serving(story)
        active = soaking(story)
        story.wait("the loser's mode", lambda: [pod.mode for pod in story.pods(first)] == ["standby"], 5)
        assert [pod.mode for pod in story.pods(active)] == ["normal"]
        (loser,) = story.pods(active)
        loser.holds_until = loser.started + 3600
        story.ask_for("1.0.0")
        story.wait("the way back", lambda: story.selector() == first, 10)
        story.wait("the winner's mode", lambda: [pod.mode for pod in story.pods(first)] == ["normal"], 5)
        story.wait("the loser's mode", lambda: loser.mode in ("standby", "draining"), 5)
        loser.holds_until = 1
        story.wait_until_at_rest()
    assert story.selector() == first
    assert story.replicas(other(first)) == 0
