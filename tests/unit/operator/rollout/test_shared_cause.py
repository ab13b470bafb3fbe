"""What the previous colour breaches, too, is not the new revision's fault: then nothing is flipped for it."""

from typing import Any

import pytest
from backstay_contract.evidence import MetricEvidence, VerdictKind
from backstay_contract.metric import MetricName
from backstay_contract.reasons import Reason
from backstay_contract.status import Attempt, Colour, Phase
from backstay_operator.rollout.observation import PodFailure

from .world import LIMIT_MS, World, digest, serving

LONG = {"minSeconds": 60, "maxSeconds": 120}
BOTH = {"p99LatencyMs": {"value": LIMIT_MS / 2}, "errorRate": {"value": 0.01}}


def soaking(**changes: Any) -> World:
    """Model b is in its soak, half of its requests too slow; a still gets a tenth of the load."""
    world = serving("a", baselines=BOTH)
    world.kept_alive = 0.1
    world.model("b").slow = 0.5
    world.ask("b", soak=LONG, baselines=BOTH, **changes)
    return world.until(Phase.SOAKING)


@pytest.mark.case("S10")
def test_a_metric_that_both_colours_breach_at_once_holds_with_one_event_and_no_flip() -> None:
    world = soaking()
    world.model("a").slow = 0.5
    world.until(Phase.HELD).run(20)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.SHARED_CAUSE)
    assert (world.live_digest(), world.pods_of) == (digest("b"), {Colour.BLUE: 1, Colour.GREEN: 1})
    assert not world.status.rejected
    assert sum(event.reason == Reason.SHARED_CAUSE for event in world.events.values()) == 1
    assert any(c.type == "Degraded" and c.status == "True" for c in world.status.conditions)


def test_a_previous_colour_that_holds_its_limits_is_gone_back_to() -> None:
    world = soaking().until(Phase.ROLLING_BACK)
    assert world.live_digest() == digest("a")


def test_a_previous_colour_without_requests_is_no_witness() -> None:
    world = soaking()
    world.kept_alive, world.model("a").slow = 0.0, 0.5
    world.until(Phase.ROLLING_BACK)
    assert world.live_digest() == digest("a")


def test_what_the_previous_colour_did_before_the_flip_is_not_held_against_it() -> None:
    world = serving("a", rollback={"afterVerified": "Ignore"})
    world.model("a").slow = 0.5
    world.run(10)
    world.model("b").slow = 0.5
    world.ask("b", soak=LONG)
    world.until(Phase.SOAKING).until(Phase.ROLLING_BACK)
    assert world.live_digest() == digest("a")


def test_another_metric_of_the_previous_colour_excuses_nothing() -> None:
    world = soaking()
    world.model("a").failing = 0.5
    world.until(Phase.ROLLING_BACK)
    assert world.live_digest() == digest("a")


def test_a_breach_of_its_own_beside_a_shared_one_is_answered_by_its_rule() -> None:
    world = soaking()
    world.model("a").slow = 0.5
    world.model("b").failing = 0.5
    world.until(Phase.ROLLING_BACK)
    assert (world.live_digest(), world.status.rejected[0].metric) == (digest("a"), "errorRate")


def test_pods_that_die_are_never_a_shared_cause() -> None:
    world = soaking()
    world.model("a").slow = 0.5
    world.until(Phase.HELD)
    world.model("b").failure = PodFailure(Reason.OOM_KILLED, "killed for memory", hard=True)
    world.run(2)
    assert world.live_digest() == digest("a")


def latency(attempt: Attempt) -> MetricEvidence:
    return next(one for one in attempt.previous_evidence if one.metric is MetricName.P99_LATENCY)


def test_the_evidence_of_the_previous_colour_survives_a_restart_and_begins_with_each_attempt() -> None:
    world = soaking()
    world.model("b").slow = 0.0
    world.run(3)
    beside = latency(world.attempt)
    assert (beside.n > 0, beside.k) == (True, 0)
    world.restart()
    world.run(2)
    assert latency(world.attempt).n > beside.n
    world.run(60)
    world.ask("c", soak=LONG, baselines=BOTH)
    world.until(Phase.STARTING).until(Phase.SOAKING)
    assert latency(world.attempt).n == 0


def test_the_previous_colour_is_judged_by_its_own_limits() -> None:
    world = serving("a")
    world.kept_alive = 0.1
    own = {"p99LatencyMs": {"value": LIMIT_MS * 2}}
    world.ask("b", soak=LONG, baselines=own)
    world.until(Phase.SOAKING).run(2)
    assert [one.limit for one in world.attempt.previous_evidence] == [LIMIT_MS]
    assert [one.limit for one in world.attempt.evidence] == [LIMIT_MS * 4]


def test_a_fix_ends_a_hold_for_a_shared_cause() -> None:
    world = soaking()
    world.model("a").slow = 0.5
    world.until(Phase.HELD)
    world.ask("c")
    world.run(60)
    assert (world.live_digest(), world.status.phase) == (digest("c"), Phase.SERVING)


def test_a_shared_breach_is_shown_as_the_breach_it_is() -> None:
    world = soaking()
    world.model("a").slow = 0.5
    world.until(Phase.HELD)
    assert VerdictKind.BREACH in [v.verdict for v in world.status.verdicts if v.metric is MetricName.P99_LATENCY]
