"""What the rules of the rollback tree do about a breach in the soak: which revision comes back, how, and what stays."""

from typing import Any

import pytest
from backstay_contract.mode import Mode
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, Phase
from backstay_operator.rollout.observation import PodFailure

from .world import World, digest, serving

LONG = {"minSeconds": 60, "maxSeconds": 120}


def rule(**fields: str) -> dict[str, Any]:
    return {"rules": [{"on": "p99LatencyMs", **fields}]}


def breaching(**fields: str) -> World:
    """Model a serves, verified; b is in its soak, half of its requests too slow, under that rule."""
    world = serving("a")
    world.model("b").slow = 0.5
    world.ask("b", soak=LONG, rollback=rule(**fields))
    return world.until(Phase.SOAKING)


def condition(world: World, kind: str) -> tuple[str, str]:
    return next((c.status, c.reason) for c in world.status.conditions if c.type == kind)


# --- Rollback, Degraded ------------------------------------------------------------------------------------------


def degraded_there() -> World:
    return breaching(do="Rollback", to="Previous", mode="Degraded").until(Phase.SERVING)


@pytest.mark.case("S22")
def test_a_breach_may_go_back_to_the_previous_revision_in_degraded_mode() -> None:
    world = degraded_there()
    assert world.live_digest() == digest("a")
    assert world.status.degraded is not None
    assert world.status.degraded.revision == world.deployments[Colour.BLUE].wanted.revision
    assert world.passes[-1].colours[Colour.BLUE].mode == Mode.DEGRADED
    assert condition(world, "Degraded") == ("True", Reason.DEGRADED)


def test_the_pass_that_flips_back_already_tells_the_pods_to_cut_their_answers() -> None:
    world = breaching(mode="Degraded")
    world.until(Phase.ROLLING_BACK)
    back = next(d for d in world.passes if d.flip and d.flip.record.rejects)
    assert back.colours[Colour.BLUE].mode == Mode.DEGRADED


@pytest.mark.case("S23")
def test_degraded_mode_is_told_again_to_pods_that_were_replaced_and_after_a_restart() -> None:
    world = degraded_there()
    world.restart()
    world.deployments[Colour.BLUE].born = {"chat-blue-new": world.now}
    world.run(3)
    assert world.passes[-1].colours[Colour.BLUE].mode == Mode.DEGRADED


def test_degraded_mode_ends_when_the_judge_passes_the_revision_on_fresh_evidence() -> None:
    world = degraded_there()
    world.ask("b", rollback={**rule(mode="Degraded"), "watch": {"intervalSeconds": 1}})
    world.run(10)
    assert world.status.degraded is None
    assert world.passes[-1].colours[Colour.BLUE].mode == Mode.NORMAL
    assert any(event.reason == Reason.RECOVERED for event in world.events.values())


def test_degraded_mode_goes_with_the_revision_that_it_belongs_to() -> None:
    world = degraded_there()
    world.ask("c")
    world.run(40)
    assert world.live_digest() == digest("c")
    assert world.status.degraded is None


def test_a_previous_revision_that_is_still_degraded_comes_back_degraded() -> None:
    world = degraded_there()
    world.ask("c", soak=LONG)
    world.until(Phase.SOAKING)
    assert world.passes[-1].colours[Colour.GREEN].mode == Mode.NORMAL
    world.model("c").failure = PodFailure(Reason.OOM_KILLED, "killed for memory", hard=True)
    world.run(5)
    assert world.live_digest() == digest("a")
    assert world.passes[-1].colours[Colour.BLUE].mode == Mode.DEGRADED


# --- Degrade -----------------------------------------------------------------------------------------------------


def degraded_here() -> World:
    return breaching(do="Degrade").until(Phase.SERVING)


def test_degrade_stays_unverified_with_cut_answers_and_ends_the_attempt() -> None:
    world = degraded_here()
    assert world.live_digest() == digest("b")
    assert (world.attempt.outcome, world.status.reason) == (Reason.DEGRADED, Reason.DEGRADED)
    assert not world.status.history[-1].verified
    assert not world.status.rejected
    assert world.passes[-1].colours[Colour.GREEN].mode == Mode.DEGRADED
    assert condition(world, "Verified") == ("False", Reason.DEGRADED)


def test_a_breach_in_degraded_mode_goes_back_and_does_not_degrade_twice() -> None:
    world = degraded_here()
    world.ask("b", soak=LONG, rollback={**rule(do="Degrade"), "watch": {"intervalSeconds": 1}})
    world.run(60)
    assert world.live_digest() == digest("a")
    assert [r.digest for r in world.status.rejected] == [digest("b")]
    assert world.status.degraded is None


def test_a_revision_that_recovered_and_breaches_again_is_left_not_degraded_again() -> None:
    world = degraded_here()
    world.model("b").slow = 0.0
    fast = {**rule(do="Degrade"), "watch": {"intervalSeconds": 1, "roundSeconds": 10}}
    world.ask("b", soak=LONG, rollback=fast)
    world.run(15)
    assert world.status.degraded is None
    assert (world.status.history[-1].verified, world.status.history[-1].reason) == (False, Reason.RECOVERED)
    world.model("b").slow = 0.9
    world.run(60)
    assert world.live_digest() == digest("a")


# --- Hold --------------------------------------------------------------------------------------------------------


def test_hold_keeps_both_colours_with_the_reason_of_the_trouble_and_one_event() -> None:
    world = breaching(do="Hold").until(Phase.HELD)
    world.run(30)
    assert (world.status.phase, world.status.reason, world.live_digest()) == (Phase.HELD, Reason.BREACH, digest("b"))
    assert world.pods_of == {Colour.BLUE: 1, Colour.GREEN: 1}
    assert sum(event.reason == Reason.BREACH for event in world.events.values()) == 1
    assert condition(world, "Degraded") == ("True", Reason.BREACH)


def test_a_hold_ends_with_a_fix() -> None:
    world = breaching(do="Hold").until(Phase.HELD)
    world.ask("c")
    world.run(60)
    assert (world.live_digest(), world.status.phase) == (digest("c"), Phase.SERVING)


def test_a_hold_ends_when_a_person_promotes_it_and_nothing_overrules_that_person() -> None:
    world = breaching(do="Hold").until(Phase.HELD)
    held = {**rule(do="Hold"), "watch": {"intervalSeconds": 1}}
    world.ask("b", soak=LONG, rollout={"promote": world.attempt.id}, rollback=held)
    world.run(60)
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.OVERRULED)
    assert world.live_digest() == digest("b")
    assert not world.status.history[-1].verified


def test_the_name_that_a_manual_promotion_left_there_does_not_end_a_hold() -> None:
    world = serving("a")
    world.model("b").slow = 0.5
    manual = {"promotion": "Manual"}
    world.ask("b", soak=LONG, rollout=manual, rollback=rule(do="Hold"))
    world.until(Phase.AWAITING_PROMOTION)
    world.ask("b", soak=LONG, rollout={**manual, "promote": world.attempt.id}, rollback=rule(do="Hold"))
    world.until(Phase.HELD).run(20)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.BREACH)


def test_a_hold_ends_with_another_rule() -> None:
    world = breaching(do="Hold").until(Phase.HELD)
    world.ask("b", soak=LONG, rollback=rule(do="Rollback"))
    world.run(10)
    assert world.live_digest() == digest("a")


def test_pods_that_die_while_a_rule_holds_go_back_all_the_same() -> None:
    world = breaching(do="Hold").until(Phase.HELD)
    world.model("b").failure = PodFailure(Reason.OOM_KILLED, "killed for memory", hard=True)
    world.run(2)
    assert world.live_digest() == digest("a")


@pytest.mark.parametrize(("do", "serves"), [("Rollback", "a"), ("Hold", "b"), ("Degrade", "b")])
def test_a_hardware_mismatch_of_one_pod_follows_its_rule_while_others_serve(do: str, serves: str) -> None:
    world = serving("a", replicas=2)
    world.ask("b", replicas=2, soak=LONG, rollback={"rules": [{"on": "HardwareMismatch", "do": do}]})
    world.until(Phase.SOAKING)
    moved = next(iter(world.deployments[Colour.GREEN].born))
    world.broken[moved] = PodFailure(Reason.HARDWARE_MISMATCH, "gpu: the node has NVIDIA-L4", hard=True)
    world.run(3)
    assert world.live_digest() == digest(serves)
    assert bool(world.status.rejected) == (do == "Rollback")


# --- LastVerified and the slow way back ----------------------------------------------------------------------------


def unverified_in_between() -> World:
    """Model a was verified, b was not and serves."""
    world = serving("a")
    world.requests_per_second = 1
    world.ask("b", soak={"maxSeconds": 8})
    world.run(50)
    assert (world.live_digest(), world.status.reason) == (digest("b"), Reason.INSUFFICIENT_DATA)
    world.requests_per_second = 200
    return world


def further_back() -> World:
    world = unverified_in_between()
    world.model("c").slow = 0.5
    world.ask("c", rollback=rule(to="LastVerified"))
    return world.until(Phase.ROLLING_BACK)


@pytest.mark.case("S22")
def test_last_verified_flips_to_the_warm_previous_at_once_and_goes_on_to_the_last_verified() -> None:
    world = further_back()
    assert world.live_digest() == digest("b")
    assert world.status.returning is not None
    world.run(60)
    assert (world.live_digest(), world.status.phase) == (digest("a"), Phase.SERVING)
    assert [r.digest for r in world.status.rejected] == [digest("c")]
    assert world.status.returning is None
    assert min(world.ready_behind_service[-120:]) >= 1
    assert world.status.history[-1].verified


def test_what_serves_serves_on_while_the_last_verified_revision_comes_up() -> None:
    world = further_back()
    world.model("a").seconds_to_ready = 20
    world.run(15)
    assert (world.live_digest(), world.status.phase) == (digest("b"), Phase.STARTING)
    assert condition(world, "Degraded") == ("True", Reason.RETURNING)
    world.run(60)
    assert world.live_digest() == digest("a")


def test_a_slow_way_back_waits_for_no_person_no_metrics_and_no_pause() -> None:
    world = further_back()
    world.metrics_answer = False
    world.ask("c", rollout={"promotion": "Manual", "paused": True}, rollback=rule(to="LastVerified"))
    world.run(30)
    assert world.live_digest() == digest("a")


def test_a_fix_goes_before_a_slow_way_back() -> None:
    world = further_back()
    world.model("a").seconds_to_ready = 10
    world.run(8)
    world.ask("d")
    world.run(60)
    assert (world.live_digest(), world.status.phase) == (digest("d"), Phase.SERVING)
    assert world.status.returning is None


def test_a_fix_that_is_asked_for_in_the_soak_of_a_slow_way_back_waits_for_no_verdict() -> None:
    world = further_back()
    world.until(Phase.SOAKING)
    assert world.live_digest() == digest("a")
    world.requests_per_second = 0
    world.ask("d")
    world.until(Phase.STARTING, seconds=15)
    assert world.attempt.digest == digest("d")


def test_a_retry_of_what_was_left_ends_the_slow_way_back() -> None:
    world = further_back()
    world.model("a").seconds_to_ready = 1000
    world.run(8)
    world.model("c").slow = 0.0
    world.ask("c", rollout={"retryToken": "1"})
    world.run(60)
    assert (world.live_digest(), world.status.phase) == (digest("c"), Phase.SERVING)


def test_a_revision_that_cannot_be_brought_up_again_leaves_what_serves_and_says_so() -> None:
    world = further_back()
    world.model("a").failure = PodFailure(Reason.MODEL_NOT_FOUND, "no such object", hard=True)
    world.run(60)
    assert (world.live_digest(), world.status.phase) == (digest("b"), Phase.SERVING)
    assert condition(world, "Degraded") == ("True", Reason.NO_PREVIOUS)
    assert any(event.reason == Reason.MODEL_NOT_FOUND and event.warning for event in world.events.values())
    attempts = world.status.attempts
    world.run(60)
    assert world.status.attempts == attempts


def test_with_the_previous_colour_gone_a_breach_takes_the_slow_way_back() -> None:
    world = breaching(do="Rollback", mode="Degraded")
    del world.deployments[Colour.BLUE]
    world.until(Phase.SERVING).until(Phase.SOAKING)
    assert world.live_digest() == digest("a")
    assert [r.digest for r in world.status.rejected] == [digest("b")]
    assert min(world.ready_behind_service[-40:]) >= 1
    assert world.passes[-1].colours[Colour.BLUE].mode == Mode.DEGRADED


@pytest.mark.case("S23")
def test_what_passes_with_cut_answers_in_its_soak_has_yet_to_pass_with_whole_ones() -> None:
    world = breaching(do="Rollback", mode="Degraded")
    del world.deployments[Colour.BLUE]
    world.until(Phase.SERVING).until(Phase.SOAKING)
    while world.status.degraded is not None:
        world.run(0.5)
    assert (world.status.phase, world.attempt.observed_seconds) == (Phase.SOAKING, 0.0)
    assert all(one.n == 0 for one in world.attempt.evidence)
    world.run(90)
    assert (world.status.phase, world.live_digest()) == (Phase.SERVING, digest("a"))
    assert (world.attempt.outcome, world.status.history[-1].verified) == (Reason.VERIFIED, True)


def test_a_way_back_that_breaches_the_same_metric_is_held_as_a_shared_cause() -> None:
    world = breaching(do="Rollback")
    del world.deployments[Colour.BLUE]
    world.model("a").slow = 0.5
    world.run(40)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.SHARED_CAUSE)
    assert world.live_digest() == digest("a")
    assert [r.digest for r in world.status.rejected] == [digest("b")]


def test_a_way_back_whose_pods_die_flips_to_what_is_ready_although_it_was_rejected() -> None:
    world = breaching(do="Rollback")
    del world.deployments[Colour.BLUE]
    world.model("a").fails_after = 4.0
    world.run(60)
    assert world.live_digest() == digest("b")
    assert world.ready_behind_service[-1] == 1
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.NO_PREVIOUS)
    assert condition(world, "Degraded") == ("True", Reason.NO_PREVIOUS)
    assert {r.digest for r in world.status.rejected} == {digest("a"), digest("b")}
    world.ask("c")
    world.run(60)
    assert (world.live_digest(), world.status.phase) == (digest("c"), Phase.SERVING)


def test_a_slow_way_back_without_traffic_ends_with_what_it_brought_back() -> None:
    world = breaching(do="Rollback")
    del world.deployments[Colour.BLUE]
    world.until(Phase.STARTING)
    world.requests_per_second = 0
    world.ask("b", soak={"minSeconds": 4, "maxSeconds": 20, "onInsufficientData": "Rollback"})
    world.run(60)
    assert (world.status.phase, world.live_digest()) == (Phase.SERVING, digest("a"))
    assert world.passes[-1].look_again is None
