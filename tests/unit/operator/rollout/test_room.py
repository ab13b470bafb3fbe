"""No room for a second colour: what is reckoned before anything is made, and what Recreate does."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, Phase
from backstay_operator.rollout.capacity.nodes import Node, Nodes
from backstay_operator.rollout.observation import Observation, PodFailure

from .world import World, digest, serving

RECREATE = {"strategy": "Recreate"}


def full(**changes: Any) -> World:
    """A world in which a serves on nodes that have no place left."""
    world = serving("a", **changes)
    world.slots = 1
    world.run(1)
    return world


# --- reckoned beforehand -----------------------------------------------------------------------------------------


@pytest.mark.case("T12")
def test_without_room_nothing_is_made_and_need_and_free_are_said() -> None:
    world = full()
    world.ask("b")
    world.run(200)
    assert (world.status.phase, world.status.reason) == (Phase.PENDING, Reason.INSUFFICIENT_CAPACITY)
    assert "need=1 × (pods 1) free=room for 0 (n1: pods 0)" in world.status.message
    assert (Colour.GREEN in world.deployments, world.live_digest()) == (False, digest("a"))
    assert sum(event.reason == Reason.INSUFFICIENT_CAPACITY for event in world.events.values()) == 1
    assert not world.status.rejected


@pytest.mark.case("T12")
def test_it_goes_on_by_itself_when_there_is_room() -> None:
    world = full()
    world.ask("b")
    world.run(200)
    attempt = world.attempt.id
    assert 0 < (world.passes[-1].look_again or 0) <= 10
    world.slots = 2
    world.run(40)
    assert (world.live_digest(), world.attempt.id) == (digest("b"), attempt)


@pytest.mark.case("R31")
def test_three_specs_in_a_row_converge_without_room_too() -> None:
    world = full()
    for letter in "bcd":
        world.ask(letter)
        world.run(3)
    world.slots = 2
    world.run(40)
    assert world.live_digest() == digest("d")
    assert Colour.GREEN in world.deployments


def test_a_spec_put_back_while_there_is_no_room_ends_the_attempt() -> None:
    world = full()
    world.ask("b")
    world.run(5)
    world.ask("a")
    world.run(5)
    assert (world.status.phase, world.attempt.outcome) == (Phase.SERVING, Reason.SPEC_REVERTED)


def test_where_nodes_may_not_be_listed_the_scheduler_says_that_there_is_no_room() -> None:
    world = full()
    world.nodes_may_be_listed = False
    world.ask("b")
    world.run(20)
    assert (world.status.phase, world.status.reason) == (Phase.PENDING, Reason.INSUFFICIENT_CAPACITY)
    assert "Too many pods" in world.status.message
    assert world.deployments[Colour.GREEN].replicas == 1


def test_room_for_some_of_the_pods_is_no_room() -> None:
    world = serving("a", replicas=3)
    world.slots = 5
    world.ask("b", replicas=3)
    world.run(10)
    assert "need=3 × (pods 1) free=room for 2" in world.status.message
    assert Colour.GREEN not in world.deployments
    world.slots = 6
    world.run(40)
    assert world.live_digest() == digest("b")


def test_once_a_candidate_is_made_its_own_pods_tell_how_it_fares() -> None:
    world = serving("a")
    world.slots = 2
    world.model("b").seconds_to_ready = 20
    world.ask("b")
    world.run(10)
    world.slots = 0
    world.run(5)
    assert world.deployments[Colour.GREEN].replicas == 1
    assert world.status.phase is Phase.STARTING


def test_a_candidate_that_was_made_by_a_pass_which_died_then_is_not_taken_for_one_that_has_no_room() -> None:
    world = serving("a")
    world.slots = 2
    world.ask("b")
    world.writes, world.die_at = 0, 1
    world.run(0.5)
    assert world.deployments[Colour.GREEN].replicas == 1
    world.tick(0.5)
    assert world.turn().colours[Colour.GREEN].replicas == 1
    assert world.status.phase is Phase.STARTING


class Elsewhere(World):
    """A world whose nodes have other hardware than is asked for."""

    found: Nodes | None = None

    def observe(self) -> Observation:
        return replace(super().observe(), nodes=self.found)


PROFILE = {"gpu": "NVIDIA-L4", "count": 1}
A100 = Node(
    "n1", {"nvidia.com/gpu.product": "NVIDIA-A100"}, has={"nvidia.com/gpu": Decimal(8), "pods": Decimal(110)}
)  # fmt: skip
L4 = replace(A100, labels={"nvidia.com/gpu.product": "NVIDIA-L4"})


@pytest.mark.parametrize(
    ("nodes", "reason", "said"),
    [
        ((A100,), Reason.NO_MATCHING_NODES, "seen: NVIDIA-A100 (n1)"),
        ((replace(A100, labels={}),), Reason.PROFILE_AMBIGUOUS, "gpu-feature-discovery"),
    ],
)
def test_a_wrong_profile_is_no_rejection_and_goes_on_when_a_node_appears(
    nodes: tuple[Node, ...], reason: Reason, said: str
) -> None:
    world = Elsewhere()
    world.found = Nodes(nodes)
    world.ask("a", hardwareProfile=PROFILE)
    world.run(100)
    assert (world.status.phase, world.status.reason) == (Phase.PENDING, reason)
    assert said in world.status.message
    assert (world.deployments, world.status.rejected) == ({}, ())
    world.found = Nodes((*nodes, replace(L4, name="n2")))
    world.run(30)
    assert world.live_digest() == digest("a")


# --- Recreate ----------------------------------------------------------------------------------------------------


def test_recreate_takes_the_active_colour_down_first_and_the_selector_is_never_empty() -> None:
    world = full()
    world.model("b").seconds_to_ready = 5
    world.ask("b", rollout=RECREATE)
    world.run(2)
    assert (world.status.phase in (Phase.PENDING, Phase.STARTING), world.selector) == (True, Colour.BLUE)
    assert any(event.reason == Reason.RECREATING for event in world.events.values())
    for decision in world.passes:
        both = [plan.replicas for plan in decision.colours.values() if plan.replicas]
        assert len(both) <= 1 or decision.status.attempt is None or decision.status.attempt.ended_at
    world.run(60)
    assert (world.live_digest(), world.status.reason) == (digest("b"), Reason.VERIFIED)
    assert world.pods_of == {Colour.BLUE: 0, Colour.GREEN: 1}
    selected = [colour is not None for colour in world.selectors]
    assert selected == sorted(selected)
    assert not any(event.reason == Reason.ACTIVE_UNHEALTHY for event in world.events.values())


def test_recreate_makes_no_pod_before_the_active_ones_are_gone() -> None:
    world = full()
    world.ask("b", rollout=RECREATE)
    while Colour.GREEN not in world.deployments:
        assert world.status.phase in (Phase.SERVING, Phase.PENDING, Phase.STARTING)
        before = len(world.deployments[Colour.BLUE].born)
        world.turn()
        world.tick(0.5)
    assert before == 0


@pytest.mark.parametrize("why", ["failure", "smoke", "deadline", "abort"])
@pytest.mark.case("R1")
def test_a_failed_recreate_brings_the_old_revision_back(why: str) -> None:
    world = full()
    model = world.model("b")
    if why == "failure":
        model.failure = PodFailure(Reason.DIGEST_MISMATCH, "expected x, found y", hard=True)
    elif why == "smoke":
        model.smoke = "wrong"
    else:
        model.seconds_to_ready = 10_000
    world.ask("b", rollout=RECREATE)
    world.run(10)
    if why == "abort":
        world.ask("b", rollout={**RECREATE, "abort": world.attempt.id})
    world.run(100)
    assert (world.live_digest(), world.pods_of) == (digest("a"), {Colour.BLUE: 1, Colour.GREEN: 0})
    assert world.ready_behind_service[-1] == 1
    assert world.status.rejected[0].digest == digest("b")
    assert set(world.selectors[-200:]) == {Colour.BLUE}


def test_the_active_colour_stays_up_where_there_would_be_no_room_all_the_same() -> None:
    world = full(replicas=1)
    world.ask("b", replicas=2, rollout=RECREATE)
    world.run(60)
    assert (world.status.phase, world.status.reason) == (Phase.PENDING, Reason.INSUFFICIENT_CAPACITY)
    assert min(world.ready_behind_service[-60:]) == 1
    world.slots = 2
    world.run(60)
    assert world.live_digest() == digest("b")


def test_a_place_that_is_taken_while_the_active_colour_is_down_ends_in_its_coming_back() -> None:
    world = full()
    world.nodes_may_be_listed = False
    world.ask("b", rollout=RECREATE)
    while world.deployments[Colour.BLUE].replicas:
        world.turn()
    world.strangers, world.slots = 2, 2
    world.run(100)
    assert world.status.rejected[0].reason == Reason.INSUFFICIENT_CAPACITY
    assert world.deployments[Colour.BLUE].replicas == 1
    world.strangers = 1
    world.run(10)
    assert (world.live_digest(), world.ready_behind_service[-1]) == (digest("a"), 1)


def test_a_spec_put_back_before_the_flip_brings_the_active_colour_up_again() -> None:
    world = full()
    world.model("b").seconds_to_ready = 10_000
    world.ask("b", rollout=RECREATE)
    world.run(10)
    world.ask("a", rollout=RECREATE)
    world.run(10)
    assert (world.live_digest(), world.ready_behind_service[-1]) == (digest("a"), 1)
    assert (world.attempt.outcome, world.status.rejected) == (Reason.SPEC_REVERTED, ())


def test_a_pause_before_the_flip_brings_the_active_colour_up_again_until_it_is_resumed() -> None:
    world = full()
    world.model("b").seconds_to_ready = 5
    world.ask("b", rollout=RECREATE)
    world.run(4)
    assert world.ready_behind_service[-1] == 0
    world.ask("b", rollout={**RECREATE, "paused": True})
    world.run(60)
    assert (world.status.phase, world.status.reason) == (Phase.PENDING, Reason.PAUSED)
    assert (world.live_digest(), world.ready_behind_service[-1]) == (digest("a"), 1)
    world.ask("b", rollout=RECREATE)
    world.run(60)
    assert world.live_digest() == digest("b")
    assert not world.status.rejected


def test_dark_metrics_do_not_hold_the_flip_while_nothing_serves() -> None:
    world = full()
    world.metrics_answer = False
    world.ask("b", rollout=RECREATE)
    world.run(15)
    assert (world.selector, world.ready_behind_service[-1]) == (Colour.GREEN, 1)


def test_a_breach_after_recreate_is_gone_back_from_by_the_slow_way() -> None:
    world = full()
    world.model("b").slow = 0.5
    world.ask("b", rollout=RECREATE)
    world.run(100)
    assert world.status.rejected[0].reason == Reason.BREACH
    assert (world.live_digest(), world.ready_behind_service[-1]) == (digest("a"), 1)
    assert world.status.returning is None
    assert sum(world.pods_of.values()) == 1


def test_a_candidate_that_dies_after_recreate_is_gone_back_from_too() -> None:
    world = full()
    world.model("b").fails_after = 2.0
    world.ask("b", soak={"minSeconds": 60}, rollout=RECREATE)
    world.run(100)
    assert world.status.rejected[0].reason == Reason.OOM_KILLED
    assert (world.live_digest(), world.ready_behind_service[-1]) == (digest("a"), 1)


def test_what_served_before_is_brought_back_when_the_spec_is_put_back_in_the_soak() -> None:
    world = full()
    soak = {"minSeconds": 60, "maxSeconds": 120}
    world.ask("b", soak=soak, rollout=RECREATE)
    world.until(Phase.SOAKING)
    world.ask("a", soak=soak, rollout=RECREATE)
    world.run(20)
    assert world.live_digest() == digest("a")
    assert not world.status.rejected


def test_an_abort_in_the_soak_of_recreate_goes_the_slow_way_back() -> None:
    world = full()
    soak = {"minSeconds": 60, "maxSeconds": 120}
    world.ask("b", soak=soak, rollout=RECREATE)
    world.until(Phase.SOAKING)
    world.ask("b", soak=soak, rollout={**RECREATE, "abort": world.attempt.id})
    world.run(30)
    assert world.live_digest() == digest("a")
    assert world.status.rejected[0].reason == Reason.ABORTED


def test_a_first_deployment_by_recreate_has_nothing_to_take_down() -> None:
    world = World(slots=1)
    world.ask("a", rollout=RECREATE)
    world.run(40)
    assert (world.live_digest(), world.status.phase) == (digest("a"), Phase.SERVING)


def test_a_strategy_that_is_changed_on_the_way_is_followed() -> None:
    world = full()
    world.model("b").seconds_to_ready = 10_000
    world.ask("b", rollout=RECREATE)
    world.run(10)
    world.slots = 2
    world.ask("b")
    world.run(10)
    assert world.pods_of == {Colour.BLUE: 1, Colour.GREEN: 1}
    assert world.ready_behind_service[-1] == 1
