"""Evidence that points against a revision without naming it, and a previous colour that is only half there."""

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, Phase

from .world import World, digest, serving

SHORT = {"minSeconds": 4, "maxSeconds": 12}


def outlier(**soak: object) -> World:
    """Two pods of b are in their soak, and one of them is slow."""
    world = serving("a", replicas=2)
    world.ask("b", replicas=2, soak={**SHORT, **soak})
    world.until(Phase.SOAKING)
    world.slow_pods = {next(iter(world.deployments[Colour.GREEN].born))}
    return world


@pytest.mark.case("R51")
def test_one_bad_pod_of_two_is_not_promoted_silently() -> None:
    world = outlier(onInsufficientData="Promote").run(30)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.POD_OUTLIER)
    assert world.pods_of == {Colour.BLUE: 2, Colour.GREEN: 2}
    assert next(iter(world.slow_pods)) in world.status.message
    assert sum(event.reason == Reason.POD_OUTLIER for event in world.events.values()) == 1


def test_one_bad_pod_of_two_goes_back_where_that_is_the_policy() -> None:
    world = outlier(onInsufficientData="Rollback").run(30)
    assert world.live_digest() == digest("a")


def test_a_hold_for_one_pod_ends_when_a_person_promotes() -> None:
    world = outlier().run(30)
    world.ask("b", replicas=2, soak=SHORT, rollout={"promote": world.attempt.id})
    world.run(20)
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.OVERRULED)


def test_one_pod_that_gets_all_requests_and_is_bad_is_not_promoted_silently() -> None:
    world = serving("a", replicas=2)
    world.ask("b", replicas=2, soak=SHORT)
    world.until(Phase.SOAKING)
    first, second = world.deployments[Colour.GREEN].born
    world.slow_pods, world.idle_pods = {first}, {second}
    world.run(30)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.POD_OUTLIER)


def test_metrics_that_go_dark_over_bad_evidence_are_not_promoted_silently() -> None:
    world = outlier(onNoData="Promote", holdTimeoutSeconds=5, maxSeconds=100)
    world.run(6)
    world.metrics_answer = False
    world.run(30)
    assert (world.status.phase, world.live_digest()) == (Phase.HELD, digest("b"))


def half_there(ready: int) -> World:
    """Four pods of b breach; of a's four only so many are ready."""
    world = serving("a", replicas=4)
    world.ask("b", replicas=4, soak={"minSeconds": 60, "maxSeconds": 120})
    world.until(Phase.SOAKING)
    world.unready_pods = set(list(world.deployments[Colour.BLUE].born)[ready:])
    world.model("b").slow = 0.5
    return world.run(15)


@pytest.mark.case("S09", "R1")
@pytest.mark.parametrize(("ready", "serves"), [(4, "a"), (3, "a"), (2, "a"), (1, "b"), (0, "b")])
def test_a_breach_stays_on_the_side_with_more_ready_pods_where_the_previous_one_is_unhealthy(
    ready: int, serves: str
) -> None:
    world = half_there(ready)
    assert world.live_digest() == digest(serves)
    if serves == "b":
        assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.NO_PREVIOUS)
        assert any(c.type == "Degraded" and c.status == "True" for c in world.status.conditions)
        assert any(event.reason == Reason.NO_PREVIOUS and event.warning for event in world.events.values())


def test_it_goes_back_as_soon_as_the_previous_side_is_well_again() -> None:
    world = half_there(1)
    world.unready_pods = set()
    world.run(3)
    assert world.live_digest() == digest("a")


def test_the_last_ready_pod_of_the_previous_colour_takes_over_from_pods_that_died() -> None:
    world = half_there(1)
    world.unready_pods |= set(world.deployments[Colour.GREEN].born)
    world.run(2)
    assert world.live_digest() == digest("a")
