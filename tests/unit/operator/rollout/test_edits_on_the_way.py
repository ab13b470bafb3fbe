"""Replicas, versions and reverts that people and autoscalers ask for while a rollout is under way."""

from typing import Any

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, Phase
from hypothesis import given, settings
from hypothesis import strategies as st

from .test_levers import PHASES
from .world import World, digest, serving

LONG = {"minSeconds": 60, "maxSeconds": 120}


# --- replicas ----------------------------------------------------------------------------------------------------


@pytest.mark.case("R64", "R66")
def test_replicas_and_version_in_one_edit_leave_the_active_colour_as_it_is_until_the_flip() -> None:
    world = serving("a", replicas=2)
    world.model("b").seconds_to_ready = 10
    world.ask("b", replicas=4)
    world.until(Phase.CHECKING)
    assert {d.colours[Colour.BLUE].replicas for d in world.passes[-15:]} == {2}
    assert world.pods_of == {Colour.BLUE: 2, Colour.GREEN: 4}
    world.run(60)
    assert world.pods_of == {Colour.BLUE: 0, Colour.GREEN: 4}


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.SOAKING])
def test_an_increase_on_the_way_reaches_the_candidate_and_what_serves_at_once(phase: Phase) -> None:
    world = serving("a")
    world.model("b").seconds_to_ready = 3
    world.ask("b", soak=LONG)
    world.until(phase)
    world.run(1)
    world.ask("b", soak=LONG, replicas=3)
    world.run(1)
    assert world.pods_of[Colour.GREEN] == 3
    assert world.pods_of[Colour.BLUE] == (3 if phase is Phase.STARTING else 1)


def test_a_decrease_on_the_way_reaches_what_serves_only_after_the_verdict() -> None:
    world = serving("a", replicas=3)
    world.ask("b", replicas=3, soak=LONG)
    world.until(Phase.SOAKING)
    world.ask("b", replicas=1, soak=LONG)
    world.run(20)
    assert world.pods_of == {Colour.BLUE: 3, Colour.GREEN: 3}
    world.run(100)
    assert world.pods_of == {Colour.BLUE: 0, Colour.GREEN: 1}


def test_a_breach_in_a_pass_that_sees_a_replica_edit_flips_back_in_that_pass() -> None:
    world = serving("a")
    world.ask("b", soak=LONG)
    world.until(Phase.SOAKING)
    world.model("b").slow = 1.0
    for replicas in range(2, 12):
        world.tick(1.0)
        world.ask("b", soak=LONG, replicas=replicas)
        if world.turn().flip is not None:
            break
    assert (world.live_digest(), world.status.rejected[0].reason) == (digest("a"), Reason.BREACH)
    assert replicas <= 5


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6))
@settings(max_examples=10, deadline=None)
def test_whatever_an_autoscaler_does_on_the_way_the_last_word_counts_in_the_end(replicas: list[int]) -> None:
    world = serving("a", replicas=2)
    for number in replicas:
        world.ask("b", replicas=number)
        world.run(2, step=1.0)
        assert world.ready_behind_service[-1] >= min(2, world.pods_of[Colour.BLUE]) or world.selector is Colour.GREEN
    world.run(80, step=1.0)
    assert world.live_digest() == digest("b")
    assert world.pods_of == {Colour.BLUE: 0, Colour.GREEN: replicas[-1]}


# --- the spec put back, and a third revision ---------------------------------------------------------------------


@pytest.mark.parametrize("begin", PHASES)
@pytest.mark.case("T01")
def test_a_spec_put_back_in_any_phase_ends_the_attempt_and_no_ready_endpoint_is_missed(begin: Any) -> None:
    world: World = begin()
    seen = len(world.ready_behind_service)
    model = world.spec.model.with_(
        sha256=digest("a"), version=f"1.{ord('a')}", uri="s3://models/chat/a"
    )  # fmt: skip
    world.spec = world.spec.with_(model=model)
    world.run(60)
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.SPEC_REVERTED)
    assert (world.live_digest(), world.attempt.outcome) == (digest("a"), Reason.SPEC_REVERTED)
    assert min(world.ready_behind_service[seen:]) >= 1
    assert not world.status.rejected
    assert world.pods_of == {Colour.BLUE: 1, Colour.GREEN: 0}


@pytest.mark.parametrize("begin", PHASES)
@pytest.mark.case("R31")
def test_a_third_revision_in_any_phase_is_what_serves_in_the_end(begin: Any) -> None:
    world: World = begin()
    world.metrics_answer, world.room, world.requests_per_second = True, True, 200
    world.ask("c")
    world.run(90)
    assert (world.status.phase, world.live_digest()) == (Phase.SERVING, digest("c"))
    assert min(world.ready_behind_service[-100:]) >= 1


# --- the losing colour -------------------------------------------------------------------------------------------


@given(
    in_flight=st.sampled_from([0, 2]),
    delay=st.integers(0, 5),
    cap=st.sampled_from([0, 8, 40]),
    slow=st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=12, deadline=None)
@pytest.mark.case("R2", "R19")
def test_a_colour_is_scaled_down_only_after_the_selector_left_it_and_it_has_drained(
    in_flight: int, delay: int, cap: int, slow: float
) -> None:
    world = serving("a")
    world.model("b").slow = slow
    world.ask("b", rollout={"scaleDownDelaySeconds": delay, "drainTimeoutSeconds": cap})
    world.until(Phase.SOAKING)
    loser = Colour.GREEN if slow else Colour.BLUE
    left = world.now if loser is Colour.BLUE else None
    for _ in range(160):
        world.deployments[loser].in_flight = in_flight
        selected, replicas = world.selector, world.deployments[loser].replicas
        world.turn()
        if left is None and world.selector is not loser:
            left = world.now
        if world.deployments[loser].replicas < replicas:
            assert selected is not loser
            assert left is not None
            waited = (world.now - left).total_seconds()
            assert waited >= (delay if in_flight == 0 else cap)
        world.tick(0.5)
    assert world.deployments[loser].replicas == 0
