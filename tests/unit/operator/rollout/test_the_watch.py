"""After the soak: the active revision is watched in rounds, and what is done about a breach or an alert there."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from backstay_contract.evidence import VerdictKind
from backstay_contract.mode import Mode
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, Phase
from backstay_operator.rollout.observation import FiringAlert
from hypothesis import given, settings
from hypothesis import strategies as st

from .world import World, digest, serving

FAST = {"intervalSeconds": 1, "roundSeconds": 20}


def second(**rollback: Any) -> World:
    """Model b serves, verified; a was verified before it and its pods are gone."""
    world = serving("a")
    world.ask("b", rollback={"watch": FAST, **rollback})
    world.run(40)
    assert (world.status.reason, world.pods_of) == (Reason.VERIFIED, {Colour.BLUE: 0, Colour.GREEN: 1})
    return world


def condition(world: World, kind: str) -> tuple[str, str]:
    return next((c.status, c.reason) for c in world.status.conditions if c.type == kind)


def alert(world: World, letter: str, **changes: Any) -> FiringAlert:
    told = FiringAlert("f1", "Bad", digest(letter), "answers are rude", world.now)
    return replace(told, **changes)


# --- at rest nothing is written ------------------------------------------------------------------------------------


def test_a_watch_that_finds_nothing_writes_nothing_round_after_round() -> None:
    world = second()
    before, status = world.writes, world.status
    world.run(120)
    assert world.watch is not None
    assert (world.writes, world.status) == (before, status)


@given(st.lists(st.tuples(st.sampled_from([0, 1, 50, 400]), st.integers(1, 8), st.booleans()), max_size=12))
@settings(max_examples=20, deadline=None)
def test_no_load_and_no_restart_makes_a_watch_write(days: list[tuple[int, int, bool]]) -> None:
    world = second()
    before = world.writes
    for load, seconds, restarts in days:
        world.requests_per_second = load
        world.run(seconds)
        if restarts:
            world.restart()
    assert world.writes == before


def test_rounds_begin_anew_so_that_a_long_good_past_hides_no_trouble() -> None:
    world = second()
    world.run(60)
    assert world.watch is not None
    assert (world.now - world.watch.since).total_seconds() <= 21


def test_a_restart_begins_a_new_round() -> None:
    world = second()
    world.run(10)
    world.restart()
    world.run(2)
    assert world.watch is not None
    assert (world.now - world.watch.since).total_seconds() <= 2


def test_a_blind_watch_is_told_after_a_while_and_again_when_it_sees() -> None:
    world = second()
    world.metrics_answer = False
    before = world.writes
    world.run(15)
    assert world.writes == before
    world.run(15)
    assert condition(world, "MetricsAvailable") == ("False", Reason.METRICS_UNAVAILABLE)
    assert world.writes == before + 1
    world.run(30)
    assert world.writes == before + 1
    world.metrics_answer = True
    world.run(3)
    assert condition(world, "MetricsAvailable") == ("True", Reason.METRICS_AVAILABLE)
    assert world.status.phase is Phase.SERVING


# --- a breach --------------------------------------------------------------------------------------------------------


@pytest.mark.case("S12")
def test_a_breach_after_the_soak_brings_the_revision_before_up_again_and_flips_when_it_is_ready() -> None:
    world = second()
    world.model("b").slow = 0.5
    world.model("a").seconds_to_ready = 5
    world.until(Phase.STARTING)
    assert (world.live_digest(), world.status.rejected[-1].metric) == (digest("b"), "p99LatencyMs")
    assert condition(world, "Verified") == ("False", Reason.BREACH)
    world.run(40)
    assert (world.live_digest(), world.status.phase) == (digest("a"), Phase.SERVING)
    assert min(world.ready_behind_service[-80:]) >= 1
    assert world.pods_of == {Colour.BLUE: 1, Colour.GREEN: 0}
    attempts = world.status.attempts
    world.run(60)
    assert world.status.attempts == attempts


def test_a_breach_while_the_previous_colour_still_drains_flips_to_it_at_once() -> None:
    world = serving("a")
    world.ask("b", rollback={"watch": FAST}, rollout={"drainTimeoutSeconds": 300})
    world.until(Phase.SOAKING)
    world.deployments[Colour.BLUE].in_flight = 1
    world.until(Phase.SERVING)
    world.model("b").slow = 0.9
    world.until(Phase.ROLLING_BACK)
    assert world.live_digest() == digest("a")
    world.run(30)
    assert (world.live_digest(), world.status.reason) == (digest("a"), Reason.BREACH)
    assert [r.digest for r in world.status.rejected] == [digest("b")]


@pytest.mark.parametrize("written", [True, False])
def test_a_flip_back_at_rest_that_nobody_could_record_is_recorded_by_the_next_pass(written: bool) -> None:
    world = serving("a")
    world.ask("b", rollback={"watch": FAST})
    world.until(Phase.SOAKING)
    world.deployments[Colour.BLUE].in_flight = 1
    world.until(Phase.SERVING)
    world.model("b").slow = 0.9
    while world.selector is Colour.GREEN:
        world.die_at = None if written else world.writes + 1
        world.run(0.5)
    world.die_at = None
    world.run(40)
    assert [(r.digest, r.reason) for r in world.status.rejected] == [(digest("b"), Reason.BREACH)]
    assert (world.live_digest(), world.status.attempts) == (digest("a"), 2)


def test_a_breach_after_the_soak_with_nothing_to_go_back_to_is_held_with_one_event() -> None:
    world = serving("a", rollback={"watch": FAST})
    world.model("a").slow = 0.5
    world.run(30)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.NO_PREVIOUS)
    before = world.writes
    world.run(60)
    assert world.writes == before
    assert sum(event.reason == Reason.NO_PREVIOUS for event in world.events.values()) == 1


def test_a_hold_at_rest_ends_when_the_judge_passes_the_revision_again() -> None:
    world = serving("a", rollback={"watch": FAST})
    world.model("a").slow = 0.5
    world.until(Phase.HELD)
    world.restart()
    assert world.run(0.5).status.phase is Phase.HELD
    world.model("a").slow = 0.0
    assert world.run(60).status.phase is Phase.SERVING
    assert condition(world, "Verified") == ("False", Reason.BREACH)


def test_a_second_hold_at_rest_is_told_again() -> None:
    world = serving("a", rollback={"watch": FAST})
    for _ in range(2):
        world.model("a").slow = 0.9
        world.until(Phase.HELD)
        world.model("a").slow = 0.0
        world.run(60)
    assert sum(event.reason == Reason.NO_PREVIOUS for event in world.events.values()) == 2


def test_a_fix_ends_a_hold_at_rest() -> None:
    world = serving("a", rollback={"watch": FAST})
    world.model("a").slow = 0.5
    world.until(Phase.HELD)
    world.ask("b")
    world.run(60)
    assert (world.live_digest(), world.status.phase) == (digest("b"), Phase.SERVING)


def test_a_breach_while_a_fix_is_on_its_way_does_not_stop_the_fix() -> None:
    world = second()
    world.model("b").slow = 0.9
    world.ask("c")
    world.run(60)
    assert (world.live_digest(), world.status.phase) == (digest("c"), Phase.SERVING)
    assert not world.status.rejected


def test_a_pause_keeps_no_way_back_shut() -> None:
    world = second()
    world.ask("c", rollout={"paused": True}, rollback={"watch": FAST})
    world.run(5)
    world.model("b").slow = 0.9
    world.run(60)
    assert (world.live_digest(), world.status.reason) == (digest("a"), Reason.PAUSED)
    world.ask("c", rollback={"watch": FAST})
    world.run(60)
    assert world.live_digest() == digest("c")


@pytest.mark.parametrize(
    ("after", "phase", "reason", "mode"),
    [
        ("Hold", Phase.HELD, Reason.BREACH, Mode.NORMAL),
        ("Degrade", Phase.SERVING, Reason.DEGRADED, Mode.DEGRADED),
        ("Ignore", Phase.SERVING, Reason.VERIFIED, Mode.NORMAL),
    ],
)
def test_after_verified_says_what_a_breach_leads_to(after: str, phase: Phase, reason: Reason, mode: Mode) -> None:
    world = second(afterVerified=after)
    world.model("b").slow = 0.5
    world.run(10)
    assert (world.live_digest(), world.status.phase, world.status.reason) == (digest("b"), phase, reason)
    assert world.passes[-1].colours[Colour.GREEN].mode == mode
    assert not world.status.rejected
    assert condition(world, "Verified")[0] == ("True" if after == "Ignore" else "False")


@pytest.mark.case("S23")
def test_degrade_after_the_soak_ends_with_a_pass_and_verifies_nothing() -> None:
    world = second(afterVerified="Degrade")
    world.model("b").slow = 0.5
    while world.status.degraded is None:
        world.run(0.5)
    world.model("b").slow = 0.0
    world.restart()
    world.run(30)
    assert world.status.degraded is None
    assert condition(world, "Verified") == ("False", Reason.RECOVERED)
    before = world.writes
    world.run(60)
    assert world.writes == before


def test_degrade_after_the_soak_that_does_not_help_goes_back() -> None:
    world = second(afterVerified="Degrade")
    world.model("b").slow = 0.5
    world.run(60)
    assert world.live_digest() == digest("a")


def test_the_same_breach_soon_after_a_way_back_is_a_shared_cause() -> None:
    world = serving("a")
    world.ask("b", rollback={"watch": {"intervalSeconds": 1, "roundSeconds": 600}})
    world.until(Phase.SOAKING)
    world.model("b").slow = world.model("a").slow = 0.5
    world.run(60)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.SHARED_CAUSE)
    assert (world.live_digest(), [r.digest for r in world.status.rejected]) == (digest("a"), [digest("b")])


def test_the_same_breach_long_after_a_way_back_is_the_revisions_own() -> None:
    world = serving("a")
    world.ask("b", rollback={"watch": FAST})
    world.model("b").slow = 0.5
    world.run(60)
    assert world.live_digest() == digest("a")
    world.model("a").slow = 0.5
    world.run(30)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.NO_PREVIOUS)


def test_a_verdict_at_rest_is_written_when_its_kind_changes_and_not_with_each_look() -> None:
    world = second(afterVerified="Hold")
    assert {v.verdict for v in world.status.verdicts if v.metric == "p99LatencyMs"} == {VerdictKind.PASS}
    world.model("b").slow = 0.5
    world.run(10)
    assert {v.verdict for v in world.status.verdicts if v.metric == "p99LatencyMs"} == {VerdictKind.BREACH}
    before = world.writes
    world.run(8)
    assert world.writes == before


# --- alerts ----------------------------------------------------------------------------------------------------------


@pytest.mark.case("S24")
def test_an_alert_for_the_digest_that_serves_goes_back_and_does_not_act_twice() -> None:
    world = second()
    world.alerts = (alert(world, "b"),)
    world.run(40)
    assert (world.live_digest(), world.status.phase) == (digest("a"), Phase.SERVING)
    assert [(r.digest, r.reason) for r in world.status.rejected] == [(digest("b"), Reason.ALERT)]
    attempts = world.status.attempts
    world.run(60)
    assert world.status.attempts == attempts


def test_an_alert_in_the_soak_flips_back() -> None:
    world = serving("a")
    world.ask("b", soak={"minSeconds": 60, "maxSeconds": 120})
    world.until(Phase.SOAKING)
    world.alerts = (alert(world, "b", digest=digest("b").removeprefix("sha256:")),)
    world.run(1)
    assert (world.live_digest(), world.status.rejected[0].reason) == (digest("a"), Reason.ALERT)


@pytest.mark.case("S24")
@pytest.mark.parametrize("letter", ["a", "c"])
def test_an_alert_for_another_digest_does_nothing(letter: str) -> None:
    world = second()
    before = world.writes
    world.alerts = (alert(world, letter),)
    world.run(30)
    assert world.writes == before


def test_an_alert_of_an_earlier_attempt_does_not_end_a_retry() -> None:
    world = serving("a")
    world.ask("b", soak={"minSeconds": 10})
    world.until(Phase.SOAKING)
    world.alerts = (alert(world, "b"),)
    world.run(30)
    assert world.live_digest() == digest("a")
    world.ask("b", rollout={"retryToken": "1"})
    world.run(40)
    assert world.live_digest() == digest("b")


def test_a_rule_may_hold_for_an_alert_until_it_is_over() -> None:
    world = second(rules=[{"on": "Alert", "do": "Hold"}])
    world.alerts = (alert(world, "b"),)
    world.run(5)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.ALERT)
    world.alerts = ()
    world.run(5)
    assert world.status.phase is Phase.SERVING


def test_alerts_are_ignored_where_nothing_is_watched() -> None:
    world = second(afterVerified="Ignore")
    world.alerts = (alert(world, "b"),)
    world.run(30)
    assert (world.status.phase, world.live_digest()) == (Phase.SERVING, digest("b"))


def test_an_alert_from_before_the_flip_says_nothing_of_what_serves_now() -> None:
    world = second()
    before = world.writes
    world.alerts = (alert(world, "b", since=world.now - timedelta(days=1)),)
    world.run(30)
    assert world.writes == before
