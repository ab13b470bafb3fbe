"""Breach, hard guards, rejection and what keeps a rejected digest rejected."""

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, Phase
from backstay_operator.rollout.observation import PodFailure

from .world import LIMIT_MS, World, digest, serving


def soaking(**changes: object) -> World:
    world = serving("a")
    world.ask("b", **changes)
    return world.until(Phase.SOAKING)


def gone_back() -> World:
    world = serving("a")
    world.model("b").slow = 0.5
    world.ask("b")
    world.until(Phase.ROLLING_BACK)
    return world.run(40)


def test_a_breach_flips_back_in_the_same_pass() -> None:
    world = serving("a")
    world.model("b").slow = 0.5
    world.ask("b")
    world.until(Phase.ROLLING_BACK)
    assert world.live_digest() == digest("a")
    record = next(d.flip.record for d in world.passes if d.flip and d.flip.record.rejects)
    assert record.metric == "p99LatencyMs"


def test_a_rejection_remembers_metric_observed_and_limit() -> None:
    rejected = gone_back().status.rejected[0]
    assert rejected.digest == digest("b")
    assert (rejected.metric, rejected.limit) == ("p99LatencyMs", LIMIT_MS)
    assert rejected.observed == pytest.approx(0.5, abs=0.02)


def test_the_losing_colour_ends_and_the_reason_stays_readable() -> None:
    world = gone_back()
    assert world.pods_of == {Colour.BLUE: 1, Colour.GREEN: 0}
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.BREACH)
    assert "retryToken" in world.status.message


@pytest.mark.case("R26")
def test_a_rejected_digest_is_not_tried_again() -> None:
    world = gone_back()
    attempts = world.status.attempts
    world.ask("b", replicas=2)
    world.run(60)
    assert world.status.attempts == attempts
    assert world.pods_of == {Colour.BLUE: 2, Colour.GREEN: 0}


def test_a_rejected_digest_with_other_serving_settings_is_not_tried_again() -> None:
    world = gone_back()
    attempts = world.status.attempts
    world.ask("b", serving={"maxNumSeqs": 4})
    world.run(30)
    assert world.status.attempts == attempts


@pytest.mark.case("R23")
def test_a_new_retry_token_opens_a_new_attempt_without_old_evidence() -> None:
    world = gone_back()
    world.model("b").slow = 0.0
    first = world.attempt.id
    world.ask("b", rollout={"retryToken": "1"})
    world.until(Phase.SOAKING)
    assert world.attempt.id != first
    assert all(one.n == 0 for one in world.attempt.evidence)
    world.run(40)
    assert (world.status.reason, world.live_digest()) == (Reason.VERIFIED, digest("b"))


def test_a_retry_that_fails_again_is_rejected_again() -> None:
    world = gone_back()
    world.ask("b", rollout={"retryToken": "1"})
    world.run(60)
    assert len(world.status.rejected) == 2
    attempts = world.status.attempts
    world.run(60)
    assert world.status.attempts == attempts


@pytest.mark.case("T10")
def test_going_back_needs_neither_the_new_side_nor_its_metrics() -> None:
    world = soaking(soak={"minSeconds": 60, "maxSeconds": 120})
    world.model("b").fails_after = 0.0
    world.metrics_answer = False
    world.run(3)
    assert world.live_digest() == digest("a")
    assert world.status.rejected[0].reason == Reason.OOM_KILLED


def test_a_breach_without_a_healthy_previous_side_stays_and_says_so() -> None:
    world = soaking(soak={"minSeconds": 60, "maxSeconds": 120})
    world.model("a").fails_after = 0.0
    world.model("b").slow = 0.5
    world.until(Phase.HELD)
    assert world.status.reason == Reason.NO_PREVIOUS
    assert world.live_digest() == digest("b")
    assert any(c.type == "Degraded" and c.status == "True" for c in world.status.conditions)


def test_a_first_deployment_that_breaches_has_nowhere_to_go() -> None:
    world = World()
    world.model("a").slow = 0.5
    world.until(Phase.HELD)
    assert world.live_digest() == digest("a")
    world.model("a").slow = 0.5
    world.ask("b")
    world.run(60)
    assert world.live_digest() == digest("b")


@pytest.mark.parametrize("reason", [Reason.DIGEST_MISMATCH, Reason.HARDWARE_MISMATCH, Reason.CRASH_LOOP])
@pytest.mark.case("R28", "R77")
def test_a_hard_failure_rejects_the_candidate_and_leaves_the_active_side_alone(reason: Reason) -> None:
    world = serving("a")
    world.model("b").failure = PodFailure(reason, "expected x, found y", hard=True, container="pull", exit_code=10)
    world.ask("b")
    world.run(20)
    assert (world.live_digest(), world.status.reason) == (digest("a"), reason)
    assert world.last_failure.exit_code == 10
    assert world.pods_of == {Colour.BLUE: 1, Colour.GREEN: 0}
    assert any(event.reason == reason and event.warning for event in world.events.values())
    assert min(world.ready_behind_service[-20:]) == 1


def test_a_failure_that_may_pass_is_shown_and_waited_for() -> None:
    world = serving("a")
    world.model("b").failure = PodFailure(Reason.STORAGE_UNREACHABLE, "no answer", hard=False, container="pull")
    world.ask("b")
    world.run(20)
    assert world.status.phase is Phase.STARTING
    assert world.last_failure.reason == Reason.STORAGE_UNREACHABLE
    world.model("b").failure = None
    world.run(40)
    assert world.live_digest() == digest("b")


@pytest.mark.case("T07", "T08")
def test_a_candidate_that_never_becomes_ready_is_rejected_at_the_deadline() -> None:
    world = serving("a")
    world.model("b").seconds_to_ready = 10_000
    world.ask("b")
    world.run(80)
    assert world.status.rejected[0].reason == Reason.PROGRESS_DEADLINE_EXCEEDED
    assert world.pods_of == {Colour.BLUE: 1, Colour.GREEN: 0}


@pytest.mark.case("R71")
def test_five_broken_versions_in_a_row_each_end_rejected() -> None:
    world = serving("a")
    for letter in "bcdef":
        world.model(letter).seconds_to_ready = 10_000
        world.ask(letter)
        world.run(80)
    assert [r.digest for r in world.status.rejected] == [digest(letter) for letter in "bcdef"]


def test_a_wrong_smoke_answer_rejects_before_any_client_sees_the_candidate() -> None:
    world = serving("a")
    world.model("b").smoke = "wrong"
    world.ask("b")
    world.run(20)
    assert world.status.rejected[0].reason == Reason.SMOKE_FAILED
    assert set(world.selectors[-20:]) == {Colour.BLUE}


def test_a_smoke_inference_that_hangs_ends_at_the_deadline() -> None:
    world = serving("a")
    world.model("b").smoke = "hangs"
    world.ask("b")
    world.run(30)
    assert (world.status.phase, world.live_digest()) == (Phase.CHECKING, digest("a"))
    world.run(60)
    assert world.status.rejected[0].reason == Reason.PROGRESS_DEADLINE_EXCEEDED


def test_a_first_deployment_that_fails_hard_is_failed_and_holds_no_pods() -> None:
    world = World()
    world.model("a").failure = PodFailure(Reason.DIGEST_MISMATCH, "expected x, found y", hard=True)
    world.run(20)
    assert (world.status.phase, world.status.reason) == (Phase.FAILED, Reason.DIGEST_MISMATCH)
    assert world.pods_of == {Colour.BLUE: 0}
    world.ask("b")
    world.run(40)
    assert world.live_digest() == digest("b")


def test_dark_metrics_before_the_flip_hold_it_with_one_event() -> None:
    world = serving("a")
    world.metrics_answer = False
    world.ask("b", soak={"holdTimeoutSeconds": 1000})
    world.until(Phase.HELD)
    world.run(60)
    assert world.live_digest() == digest("a")
    assert sum(event.reason == Reason.METRICS_UNAVAILABLE for event in world.events.values()) == 1
    assert any(c.type == "MetricsAvailable" and c.status == "False" for c in world.status.conditions)
    world.metrics_answer = True
    world.run(40)
    assert world.live_digest() == digest("b")


@pytest.mark.parametrize(("policy", "serves"), [("Hold", "a"), ("Rollback", "a"), ("Promote", "b")])
def test_dark_metrics_before_the_flip_end_as_the_policy_says(policy: str, serves: str) -> None:
    world = serving("a")
    world.metrics_answer = False
    world.ask("b", soak={"onNoData": policy})
    world.run(35)
    assert world.live_digest() == digest(serves)
    assert bool(world.status.rejected) == (policy == "Rollback")


def test_the_soak_clock_pauses_while_metrics_are_dark() -> None:
    world = soaking(soak={"minSeconds": 10, "holdTimeoutSeconds": 1000})
    world.run(4)
    seen = world.attempt.observed_seconds
    world.metrics_answer = False
    world.run(100)
    assert world.attempt.observed_seconds <= seen + 1.0
    assert world.status.phase is Phase.SOAKING
    world.metrics_answer = True
    world.run(30)
    assert world.status.reason == Reason.VERIFIED


@pytest.mark.case("S07", "T39")
def test_an_operator_that_was_away_for_longer_than_the_soak_judges_and_does_not_promote_what_it_finds() -> None:
    world = soaking(soak={"minSeconds": 5, "maxSeconds": 60, "onInsufficientData": "Promote"})
    world.run(2)
    seen = world.attempt.observed_seconds
    world.model("b").slow = 0.4
    world.tick(90)
    world.turn()
    assert world.attempt.observed_seconds <= seen + 10.5
    assert world.status.phase in (Phase.SOAKING, Phase.HELD)
    world.run(20)
    assert world.live_digest() == digest("a")
    assert [one.reason for one in world.status.rejected] == [Reason.BREACH]


@pytest.mark.parametrize("policy", ["Promote", "Hold", "Rollback"])
def test_too_little_data_ends_as_the_policy_says(policy: str) -> None:
    world = serving("a")
    world.requests_per_second = 1
    world.ask("b", soak={"onInsufficientData": policy, "maxSeconds": 20})
    world.run(60)
    phase, model = {
        "Promote": (Phase.SERVING, "b"),
        "Hold": (Phase.HELD, "b"),
        "Rollback": (Phase.SERVING, "a"),
    }[policy]
    assert (world.status.phase, world.live_digest()) == (phase, digest(model))
    assert world.status.reason == Reason.INSUFFICIENT_DATA


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.CHECKING, Phase.SOAKING])
@pytest.mark.case("T01")
def test_a_spec_put_back_keeps_ready_endpoints_in_every_phase(phase: Phase) -> None:
    world = serving("a")
    world.model("b").smoke = "hangs" if phase is Phase.CHECKING else "passes"
    world.ask("b", soak={"minSeconds": 30})
    world.until(phase)
    world.ask("a")
    start = len(world.ready_behind_service)
    world.run(30)
    assert world.live_digest() == digest("a")
    assert min(world.ready_behind_service[start:]) >= 1
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.SPEC_REVERTED)
    assert not world.status.rejected
    assert world.pods_of[Colour.GREEN] == 0


def test_supersede_goes_back_first_and_then_takes_the_second_colour() -> None:
    world = serving("a")
    world.ask("b", soak={"minSeconds": 100, "maxSeconds": 200}, rollout={"whenSpecChangesInSoak": "Supersede"})
    world.until(Phase.SOAKING)
    world.ask("c", rollout={"whenSpecChangesInSoak": "Supersede"})
    world.run(1)
    assert world.live_digest() == digest("a")
    world.run(60)
    assert world.live_digest() == digest("c")
    assert not world.status.rejected


def test_a_foreign_selector_is_put_back() -> None:
    world = serving("a")
    world.ask("b")
    world.run(30)
    world.selector = Colour.BLUE
    world.turn()
    assert world.selector is Colour.GREEN


@pytest.mark.case("R19")
def test_the_losing_colour_keeps_its_pods_until_its_last_request_is_over() -> None:
    world = soaking()
    world.deployments[Colour.BLUE].in_flight = 3
    world.run(20)
    assert world.status.reason == Reason.VERIFIED
    assert world.pods_of[Colour.BLUE] == 1
    world.deployments[Colour.BLUE].in_flight = 0
    world.run(2)
    assert world.pods_of[Colour.BLUE] == 0


def test_a_stream_that_never_ends_keeps_the_losing_colour_only_until_the_drain_timeout() -> None:
    world = soaking()
    world.deployments[Colour.BLUE].in_flight = 1
    world.run(60)
    assert world.pods_of[Colour.BLUE] == 0
