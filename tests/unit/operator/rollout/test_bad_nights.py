"""What the engineer who is woken finds: edits, lost memories and dead pods in an order that nobody planned."""

from dataclasses import replace
from itertools import product

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import Attempt, Colour, HistoryEntry, ModelDeploymentStatus, Phase
from backstay_operator.rollout.decide import decide
from backstay_operator.rollout.observation import FlipRecord, PodFailure
from hypothesis import given, settings
from hypothesis import strategies as st

from .world import START, World, digest, serving

# --- held, and no way out ----------------------------------------------------------------------------------------


def held_as_bad() -> World:
    """Green serves and breaches; blue is still there, and its pods are dead."""
    world = serving("a")
    world.ask("b", soak={"minSeconds": 60, "maxSeconds": 120})
    world.until(Phase.SOAKING)
    world.model("a").fails_after = 0.0
    world.model("b").slow = 0.5
    return world.until(Phase.HELD)


@pytest.mark.case("R75")
def test_a_fix_is_rolled_out_although_the_previous_pods_are_dead() -> None:
    world = held_as_bad()
    world.ask("c")
    world.run(90)
    assert (world.live_digest(), world.status.phase) == (digest("c"), Phase.SERVING)


@pytest.mark.parametrize("policy", [{"onInsufficientData": "Rollback"}, {"onNoData": "Rollback"}])
def test_a_first_deployment_that_cannot_be_judged_is_held_where_the_policy_is_to_go_back(
    policy: dict[str, str],
) -> None:
    world = World(requests_per_second=1)
    world.ask("a", soak={"maxSeconds": 20, **policy})
    world.until(Phase.SOAKING)
    world.metrics_answer = "onNoData" not in policy
    world.run(120)
    assert world.status.phase is Phase.HELD
    world.metrics_answer, world.requests_per_second = True, 200
    world.ask("c")
    world.run(90)
    assert world.live_digest() == digest("c")


def test_a_hold_goes_back_by_policy_as_soon_as_the_previous_side_is_ready() -> None:
    world = serving("a")
    world.requests_per_second = 1
    world.ask("b", soak={"onInsufficientData": "Rollback", "maxSeconds": 20})
    world.until(Phase.SOAKING)
    world.model("a").seconds_to_ready = 500
    world.run(40)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.INSUFFICIENT_DATA)
    world.model("a").seconds_to_ready = 1
    world.run(20)
    assert world.live_digest() == digest("a")


def test_a_policy_that_is_changed_while_held_is_followed() -> None:
    world = serving("a")
    world.requests_per_second = 1
    world.ask("b", soak={"onInsufficientData": "Hold", "maxSeconds": 20})
    world.until(Phase.HELD)
    world.ask("b", soak={"onInsufficientData": "Promote", "maxSeconds": 20})
    world.run(10)
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.INSUFFICIENT_DATA)


@pytest.mark.parametrize("reason", ["SpecInvalid", "NameTaken", "", "WordOfALaterVersion"])
def test_a_hold_ends_when_data_is_back_although_the_status_said_something_else_meanwhile(reason: str) -> None:
    world = serving("a")
    world.ask("b", soak={"minSeconds": 30, "holdTimeoutSeconds": 5})
    world.until(Phase.SOAKING)
    world.metrics_answer = False
    world.until(Phase.HELD)
    world.status = world.status.with_(reason=reason, message="spec.model.uri: is wrong")
    world.run(5)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.NO_DATA)
    assert "spec.model.uri" not in world.status.message
    world.metrics_answer = True
    world.run(60)
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.VERIFIED)


def test_metrics_that_come_and_go_with_each_look_do_not_keep_the_soak_open_for_ever() -> None:
    world = serving("a")
    world.ask("b")
    world.until(Phase.SOAKING)
    for second in range(200):
        world.metrics_answer = second % 2 == 0
        world.turn()
        world.tick(1.0)
    assert (world.status.phase, world.live_digest()) == (Phase.SERVING, digest("b"))


# --- deadlines ---------------------------------------------------------------------------------------------------


def test_a_pod_lost_after_a_long_wait_for_a_person_does_not_end_the_attempt() -> None:
    world = serving("a")
    manual = {"promotion": "Manual"}
    world.ask("b", rollout=manual)
    world.until(Phase.AWAITING_PROMOTION)
    world.run(200)
    world.deployments[Colour.GREEN].born.clear()
    world.run(10)
    assert not world.status.rejected
    world.ask("b", rollout={**manual, "promote": world.attempt.id})
    world.run(30)
    assert world.live_digest() == digest("b")


def test_a_pod_lost_after_a_long_hold_for_metrics_does_not_end_the_attempt() -> None:
    world = serving("a")
    world.metrics_answer = False
    world.ask("b")
    world.until(Phase.HELD)
    world.run(200)
    world.deployments[Colour.GREEN].born.clear()
    world.run(3)
    world.metrics_answer = True
    world.run(30)
    assert not world.status.rejected
    assert world.live_digest() == digest("b")


def test_a_deadline_in_the_checks_says_what_was_waited_for() -> None:
    world = serving("a")
    world.model("b").smoke = "hangs"
    world.ask("b")
    world.run(80)
    assert "timed out" in world.status.rejected[0].message


# --- the gate ----------------------------------------------------------------------------------------------------


@pytest.mark.case("R43")
def test_a_pod_that_came_after_the_smoke_inference_is_not_flipped_to_unasked() -> None:
    world = serving("a")
    world.ask("b", rollout={"promotion": "Manual"})
    world.until(Phase.AWAITING_PROMOTION)
    # The operator was away while the pod was replaced: no pass saw it missing.
    world.deployments[Colour.GREEN].born = {"chat-green-new": world.now}
    world.now = world.now.replace(minute=world.now.minute + 1)
    world.model("b").smoke = "hangs"
    world.ask("b", rollout={"promotion": "Manual", "promote": world.attempt.id})
    world.run(20)
    assert world.live_digest() == digest("a")
    world.model("b").smoke = "passes"
    world.run(20)
    assert world.live_digest() == digest("b")


def test_a_wrong_answer_of_a_later_pod_rejects_while_a_person_is_waited_for() -> None:
    world = serving("a")
    world.ask("b", rollout={"promotion": "Manual"})
    world.until(Phase.AWAITING_PROMOTION)
    world.model("b").smoke = "wrong"
    world.run(5)
    assert world.status.rejected[0].reason == Reason.SMOKE_FAILED


# --- Deployments deleted by hand ---------------------------------------------------------------------------------


def test_a_deleted_active_deployment_is_built_again_and_no_attempt_is_opened() -> None:
    world = serving("a")
    attempts = world.status.attempts
    del world.deployments[Colour.BLUE]
    world.run(10)
    assert world.live_digest() == digest("a")
    assert (world.status.attempts, world.status.phase) == (attempts, Phase.SERVING)
    assert Colour.GREEN not in world.deployments
    assert world.ready_behind_service[-1] == 1


def test_a_deployment_deleted_in_the_soak_while_a_third_revision_waits_flips_back() -> None:
    world = serving("a")
    world.ask("b", soak={"minSeconds": 100, "maxSeconds": 200})
    world.until(Phase.SOAKING)
    world.ask("c", soak={"minSeconds": 100, "maxSeconds": 200})
    world.run(2)
    del world.deployments[Colour.GREEN]
    world.run(1)
    assert world.selector is Colour.BLUE


# --- the loser's pods --------------------------------------------------------------------------------------------


@pytest.mark.case("R2")
def test_no_pass_scales_a_colour_down_that_the_live_service_still_selects() -> None:
    world = serving("a")
    world.ask("b", rollout={"scaleDownDelaySeconds": 0, "drainTimeoutSeconds": 0}, soak={"minSeconds": 60})
    world.until(Phase.SOAKING)
    world.model("b").slow = 0.5
    while world.selector is Colour.GREEN:
        world.turn()
        world.tick(0.5)
    back = next(d for d in world.passes if d.flip and d.flip.record.rejects)
    assert back.colours[Colour.GREEN].replicas == 1
    world.run(2)
    assert world.pods_of[Colour.GREEN] == 0


def test_a_wait_for_the_losing_pods_names_them() -> None:
    world = serving("a")
    world.ask("b")
    world.until(Phase.SOAKING)
    world.deployments[Colour.BLUE].in_flight = 1
    world.ask("c")
    world.run(8)
    assert world.status.reason == Reason.WAITING_FOR_DRAIN
    assert next(iter(world.deployments[Colour.BLUE].born)) in world.status.message


def test_a_pod_that_never_ends_on_a_lost_node_holds_no_rollout_up() -> None:
    world = serving("a")
    world.ask("b")
    world.run(30)
    world.deployments[Colour.BLUE].stuck = 1
    world.ask("c")
    world.run(30)
    assert (world.live_digest(), world.status.phase) == (digest("c"), Phase.SERVING)
    assert min(world.ready_behind_service[-60:]) >= 1


# --- a candidate that cannot come up -------------------------------------------------------------------------------


def test_a_storage_address_that_is_mended_reaches_the_candidate_without_a_new_attempt() -> None:
    world = serving("a")
    world.model("b").failure = PodFailure(Reason.STORAGE_UNREACHABLE, "no such host", hard=False, container="pull")
    world.ask("b")
    world.run(10)
    before, blue = world.attempt.id, world.deployments[Colour.BLUE]
    model = world.spec.model
    storage = model.storage.with_(endpoint="http://minio.other.svc:9000")
    world.spec = world.spec.with_(model=model.with_(storage=storage))
    world.turn()
    source = world.deployments[Colour.GREEN].source
    assert source is not None
    assert source.endpoint == "http://minio.other.svc:9000"
    world.model("b").failure = None
    world.run(40)
    assert (world.attempt.id, world.live_digest()) == (before, digest("b"))
    assert blue.source != source


def test_a_storage_address_that_changes_restarts_nothing_that_serves() -> None:
    world = serving("a")
    before = world.deployments[Colour.BLUE]
    model = world.spec.model
    world.spec = world.spec.with_(model=model.with_(uri="s3://other/chat/a"))
    world.run(10)
    assert world.deployments[Colour.BLUE] is before
    world.ask("b", soak={"minSeconds": 60})
    world.until(Phase.SOAKING)
    soaking = world.deployments[Colour.GREEN]
    world.spec = world.spec.with_(model=world.spec.model.with_(uri="s3://other/chat/b"))
    world.run(10)
    assert world.deployments[Colour.GREEN] is soaking


def test_a_quota_that_keeps_pods_from_being_made_is_said_also_at_the_deadline() -> None:
    world = serving("a")
    world.model("b").seconds_to_ready = 10_000
    world.ask("b")
    world.run(2)
    world.deployments[Colour.GREEN].problem = 'pods "chat-green-1" is forbidden: exceeded quota: gpus'
    world.run(5)
    assert "exceeded quota: gpus" in world.status.message
    world.run(80)
    assert "exceeded quota: gpus" in world.status.rejected[0].message


# --- memories that are lost, edited, or of another version ---------------------------------------------------------


def an_attempt(switched: bool, held: bool) -> Attempt:
    return Attempt(
        id="r-1",
        revision="r",
        digest=digest("b"),
        version="1",
        colour=Colour.GREEN,
        image="runtime:1",
        started_at=START,
        switched_at=START if switched else None,
        held_since=START if held else None,
    )


ATTEMPTS = (None, *(an_attempt(s, h) for s, h in product([True, False], repeat=2)))
WORDS = ("", "NoData", "WordOfALaterVersion")


def remembering(phase: Phase, attempt: Attempt | None, reason: str, selector: Colour | None, flipped: bool) -> World:
    """A world in which blue serves a, green tries b, and the memory is what somebody made of it."""
    world = serving("a")
    world.ask("b")
    world.run(1)
    world.selector = selector
    world.flip = FlipRecord(selector, "r-1", "WordOfALaterVersion", START) if selector and flipped else None
    world.status = ModelDeploymentStatus(phase=phase, attempt=attempt, reason=reason, message="as edited")
    return world


@pytest.mark.parametrize("wanted", ["a", "b", "c"])
def test_there_is_a_decision_for_every_memory(wanted: str) -> None:
    world = remembering(Phase.PENDING, None, "", None, False)
    world.ask(wanted)
    for phase, attempt, reason, selector, flipped in product(Phase, ATTEMPTS, WORDS, [None, *Colour], [True, False]):
        record = FlipRecord(selector, "r-1", "WordOfALaterVersion", START) if selector and flipped else None
        seen = replace(world.observe(), selector=selector, flip=record)
        status = ModelDeploymentStatus(phase=phase, attempt=attempt, reason=reason, message="as edited")
        assert decide(world.spec, status, seen, world.now, generation=1).sentence


@given(
    phase=st.sampled_from(Phase),
    attempt=st.sampled_from(ATTEMPTS),
    reason=st.sampled_from(WORDS),
    selector=st.sampled_from([None, *Colour]),
    flipped=st.booleans(),
    wanted=st.sampled_from("abc"),
)
@settings(max_examples=15, deadline=None)
def test_from_every_memory_what_is_asked_for_comes_to_serve_or_is_rejected(
    phase: Phase, attempt: Attempt | None, reason: str, selector: Colour | None, flipped: bool, wanted: str
) -> None:
    world = remembering(phase, attempt, reason, selector, flipped)
    world.ask(wanted)
    world.run(100, step=1.0)
    rejected = any(r.digest == digest(wanted) for r in world.status.rejected)
    assert world.status.phase is Phase.SERVING
    assert rejected or world.live_digest() == digest(wanted)
    assert world.ready_behind_service[-1] == 1


def test_reasons_of_another_version_in_the_memory_do_not_stop_the_passes() -> None:
    world = serving("a")
    entry = world.status.history[-1]
    world.status = world.status.with_(
        history=(HistoryEntry.model_validate({**dict(entry), "reason": "WordOfALaterVersion"}),),
        conditions=tuple(c.with_(reason="WordOfALaterVersion") for c in world.status.conditions),
    )
    world.run(2)
    world.model("b").failure = PodFailure(Reason.DIGEST_MISMATCH, "expected x, found y", hard=True)
    world.ask("b")
    world.run(20)
    world.status = world.status.with_(
        rejected=tuple(r.with_(reason="WordOfALaterVersion") for r in world.status.rejected),
        attempt=world.attempt.with_(outcome="WordOfALaterVersion"),
        phase=Phase.ROLLING_BACK,
    )
    world.run(5)
    assert (world.status.phase, world.live_digest()) == (Phase.SERVING, digest("a"))
    assert world.status.reason == Reason.REVISION_REJECTED
