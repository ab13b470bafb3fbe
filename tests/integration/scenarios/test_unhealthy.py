"""Sides that are not well: the old one, the new one, both."""

import pytest

from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import behave_now, other, serving, soaking

pytestmark = pytest.mark.control_plane


@pytest.mark.case("S08", "R75")
def test_a_fix_is_promoted_although_the_active_colour_is_dead(story: Story) -> None:
    with story.traffic() as traffic:
        active = serving(story)
        for pod in story.pods(active):
            pod.ready = False
        story.wait_for(readyReplicas=0)
        story.ask_for("1.1.0")
        status = story.wait_until_serving("1.1.0")
    assert "ActiveUnhealthy" in story.told()
    assert {one["version"]: one["verified"] for one in status["history"]}["1.1.0"] is True
    assert traffic.versions == ["1.0.0", "1.1.0"]


@pytest.mark.case("S09", "R1")
def test_a_breach_with_a_dead_previous_colour_stays_and_goes_back_when_that_is_well_again(story: Story) -> None:
    with story.traffic() as traffic:
        previous = serving(story)
        active = soaking(story)
        for pod in story.pods(previous):
            pod.ready = False
        story.pause(1)
        behave_now(story.pods(active), slow=0.5)
        story.wait_for(phase="Held", reason="NoPrevious")
        story.pause(2)
        assert story.selector() == active
        assert story.condition("Degraded")[0] == "True"
        assert story.told().count("NoPrevious") == 1
        assert traffic.lost == 0
        for pod in story.pods(previous):
            pod.ready = True
        story.wait("the way back", lambda: story.selector() == previous, 15)
        assert story.wait_until_rejected("1.1.0")["reason"] == "Breach"
    assert traffic.lost == 0


@pytest.mark.case("S09")
def test_dead_pods_on_both_sides_move_the_service_nowhere(story: Story) -> None:
    serving_pods = []
    with story.traffic():
        previous = serving(story)
        active = soaking(story)
        serving_pods = story.pods(previous) + story.pods(active)
        for pod in serving_pods:
            pod.ready = False
        story.pause(4)
        assert story.selector() == active
        assert story.replicas(previous) == 1
        story.pods(previous)[0].ready = True
        story.wait("the way back", lambda: story.selector() == previous, 15)
    assert story.wait_until_rejected("1.1.0")["reason"] == "PodsNotReady"


@pytest.mark.case("S09", "R1")
def test_a_breach_goes_back_although_one_of_the_new_pods_is_not_ready(story: Story) -> None:
    with story.traffic() as traffic:
        previous = serving(story, replicas=2)
        active = soaking(story)
        behave_now(story.pods(active), slow=0.5)
        story.pods(active)[0].ready = False
        story.wait("the way back", lambda: story.selector() == previous, 15)
        story.wait_until_rejected("1.1.0")
        story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
    assert traffic.lost == 0
    assert None not in traffic.selectors


@pytest.mark.case("S07", "S11")
def test_when_the_operator_and_the_new_pods_die_together_the_next_operator_goes_back(story: Story) -> None:
    with story.traffic():
        previous = serving(story)
        active = soaking(story)
        story.behave("1.1.0", unready=True)
        story.operator.kill()
        for pod in story.pods(active):
            story.client.delete(f"/api/v1/namespaces/{story.namespace}/pods/{pod.name}")
        story.pause(2)
        assert story.selector() == active
        story.operator.start()
        story.wait("the way back", lambda: story.selector() == previous, 20)
        entry = story.wait_until_rejected("1.1.0", 10)
        story.wait_until_serving("1.0.0")
    assert entry["reason"] == "PodsNotReady"


@pytest.mark.case("S10")
def test_a_trouble_that_both_colours_have_holds_and_moves_nothing(story: Story) -> None:
    with story.traffic() as traffic:
        previous = serving(story)
        active = soaking(story)
        both = story.pods(previous) + story.pods(active)
        behave_now(both, slow=0.5)
        for _ in range(60):  # connections that were kept to the previous colour still bring it requests
            for pod in story.pods(previous):
                for _ in range(5):
                    pod.request()
            story.pause(0.1)
        story.wait_for(phase="Held", reason="SharedCause")
        story.pause(2)
        assert story.selector() == active
        assert story.told().count("SharedCause") == 1
    assert not story.status().get("rejected")
    assert traffic.lost == 0


@pytest.mark.case("S11", "R1")
def test_pods_that_die_after_the_flip_send_the_service_back_at_once(story: Story) -> None:
    with story.traffic() as traffic:
        previous = serving(story, replicas=2)
        active = soaking(story)
        for pod in story.pods(active):
            pod.ready = False
        story.wait("the way back", lambda: story.selector() == previous, 5)
        assert story.wait_until_rejected("1.1.0")["reason"] == "PodsNotReady"
        story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
    assert story.replicas(other(previous)) == 0
    assert None not in traffic.selectors
