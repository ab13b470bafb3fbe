"""People's levers: rollout.paused, abort and rollbackTo."""

from typing import Any

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, Phase
from hypothesis import given, settings
from hypothesis import strategies as st

from .world import World, digest, serving

PAUSED = {"paused": True}
LONG = {"minSeconds": 30, "maxSeconds": 120}


def conditions(world: World) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in world.status.conditions}


def soaking(**rollout: Any) -> World:
    world = serving("a")
    world.ask("b", soak=LONG, rollout=rollout)
    return world.until(Phase.SOAKING)


# --- paused ------------------------------------------------------------------------------------------------------


def test_while_paused_no_attempt_is_opened_and_the_status_says_so() -> None:
    world = serving("a")
    world.ask("b", rollout=PAUSED)
    world.run(60)
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.PAUSED)
    assert (world.status.attempts, world.live_digest()) == (1, digest("a"))
    assert conditions(world)["Paused"] == ("True", Reason.PAUSED)
    assert sum(event.reason == Reason.PAUSED for event in world.events.values()) == 1
    world.ask("b")
    world.run(40)
    assert world.live_digest() == digest("b")
    assert "Paused" not in conditions(world)


def test_a_paused_first_deployment_waits_without_pods() -> None:
    world = World()
    world.ask("a", rollout=PAUSED)
    world.run(10)
    assert (world.status.phase, world.status.reason) == (Phase.PENDING, Reason.PAUSED)
    assert world.deployments == {}


def test_at_rest_a_pause_costs_no_passes_and_no_writes() -> None:
    world = serving("a")
    world.ask("a", rollout=PAUSED)
    world.run(40)
    before = world.writes
    assert world.turn().look_again is None
    assert world.writes == before


@pytest.mark.parametrize("promotion", ["Automatic", "Manual"])
def test_a_pause_holds_the_flip_of_a_candidate_that_passed_its_checks(promotion: str) -> None:
    world = serving("a")
    world.model("b").seconds_to_ready = 5
    world.ask("b", rollout={"promotion": promotion})
    world.run(2)
    attempt = world.attempt.id
    world.ask("b", rollout=PAUSED | {"promotion": promotion, "promote": attempt})
    world.run(300)
    assert (world.live_digest(), world.status.reason) == (digest("a"), Reason.PAUSED)
    assert world.status.phase is Phase.AWAITING_PROMOTION
    assert (world.passes[-1].look_again or 0) >= 5
    assert not world.status.rejected
    world.ask("b", rollout={"promotion": promotion, "promote": attempt})
    world.run(40)
    assert (world.live_digest(), world.attempt.id) == (digest("b"), attempt)


def test_the_progress_deadline_does_not_run_while_paused_and_runs_anew_afterwards() -> None:
    world = serving("a")
    world.model("b").seconds_to_ready = 10_000
    world.ask("b")
    world.run(50)
    world.ask("b", rollout=PAUSED)
    world.run(500)
    assert not world.status.rejected
    world.ask("b")
    world.run(50)
    assert not world.status.rejected
    world.run(20)
    assert world.status.rejected[0].reason == Reason.PROGRESS_DEADLINE_EXCEEDED


def test_a_hold_for_metrics_is_not_decided_by_its_policy_while_paused() -> None:
    world = serving("a")
    world.metrics_answer = False
    world.ask("b", rollout=PAUSED | {"paused": False}, soak={"onNoData": "Rollback"})
    world.until(Phase.HELD)
    world.ask("b", rollout=PAUSED, soak={"onNoData": "Rollback"})
    world.run(100)
    assert (world.status.phase, world.status.rejected) == (Phase.HELD, ())
    world.ask("b", soak={"onNoData": "Rollback"})
    world.run(10)
    assert not world.status.rejected
    world.run(20)
    assert world.status.rejected[0].reason == Reason.METRICS_UNAVAILABLE


@pytest.mark.parametrize(
    ("load", "changes"),
    [(200, {}), (200, {"baselines": {}}), (1, {}), (1, {"soak": {"maxSeconds": 20, "onInsufficientData": "Rollback"}})],
)
def test_no_soak_ends_while_paused(load: int, changes: dict[str, Any]) -> None:
    world = serving("a")
    world.requests_per_second = load
    world.ask("b", **changes)
    world.until(Phase.SOAKING)
    world.ask("b", rollout=PAUSED, **changes)
    world.run(300)
    assert (world.status.phase, world.status.reason) == (Phase.SOAKING, Reason.PAUSED)
    assert world.pods_of == {Colour.BLUE: 1, Colour.GREEN: 1}
    world.ask("b", **changes)
    world.run(40)
    assert world.status.phase is Phase.SERVING


def test_the_way_back_stays_open_while_paused() -> None:
    world = soaking(**PAUSED | {"paused": False})
    world.ask("b", soak=LONG, rollout=PAUSED)
    world.model("b").slow = 0.5
    world.run(10)
    assert (world.live_digest(), world.status.rejected[0].reason) == (digest("a"), Reason.BREACH)


def test_a_dead_candidate_is_left_also_while_paused() -> None:
    world = soaking()
    world.ask("b", soak=LONG, rollout=PAUSED)
    world.model("b").fails_after = 0.0
    world.run(5)
    assert (world.live_digest(), world.status.rejected[0].reason) == (digest("a"), Reason.OOM_KILLED)


def test_a_third_revision_does_not_supersede_the_second_while_paused() -> None:
    world = soaking()
    world.ask("c", soak=LONG, rollout=PAUSED | {"whenSpecChangesInSoak": "Supersede"})
    world.run(20)
    assert world.live_digest() == digest("b")
    world.ask("c", soak=LONG, rollout={"whenSpecChangesInSoak": "Supersede"})
    world.run(100)
    assert world.live_digest() == digest("c")


# --- abort -------------------------------------------------------------------------------------------------------


def starting() -> World:
    world = serving("a")
    world.model("b").seconds_to_ready = 10_000
    world.ask("b")
    return world.until(Phase.STARTING).run(2)


def pending() -> World:
    world = serving("a")
    world.room = False
    world.ask("b")
    return world.until(Phase.PENDING)


def checking() -> World:
    world = serving("a")
    world.model("b").smoke = "hangs"
    world.ask("b")
    return world.until(Phase.CHECKING)


def awaiting() -> World:
    world = serving("a")
    world.ask("b", rollout={"promotion": "Manual"})
    return world.until(Phase.AWAITING_PROMOTION)


def held_before_the_flip() -> World:
    world = serving("a")
    world.metrics_answer = False
    world.ask("b")
    return world.until(Phase.HELD)


def held_after_the_flip() -> World:
    world = serving("a")
    world.requests_per_second = 1
    world.ask("b", soak={"onInsufficientData": "Hold", "maxSeconds": 10})
    return world.until(Phase.HELD)


PHASES = (pending, starting, checking, awaiting, held_before_the_flip, soaking, held_after_the_flip)


@pytest.mark.parametrize("begin", PHASES)
@pytest.mark.case("R26", "R29", "R40")
def test_an_aborted_attempt_ends_in_each_phase_and_its_digest_is_not_tried_again(begin: Any) -> None:
    world = begin()
    attempt = world.attempt.id
    world.spec = world.spec.with_(rollout=world.spec.rollout.with_(abort=attempt))
    world.run(60)
    assert (world.live_digest(), world.attempt.outcome) == (digest("a"), Reason.ABORTED)
    assert [(r.digest, r.reason, r.attempt) for r in world.status.rejected] == [(digest("b"), Reason.ABORTED, attempt)]
    assert world.pods_of == {Colour.BLUE: 1, Colour.GREEN: 0}
    assert (world.status.attempts, world.status.reason) == (2, Reason.ABORTED)


@pytest.mark.parametrize("begin", PHASES)
def test_a_stale_abort_does_nothing(begin: Any) -> None:
    world = begin()
    before = world.attempt.id, world.status.phase
    world.spec = world.spec.with_(rollout=world.spec.rollout.with_(abort="another-1"))
    world.run(2)
    assert (world.attempt.id, world.attempt.ended_at) == (before[0], None)


def test_an_abort_in_the_soak_flips_back_in_the_same_pass_also_while_paused() -> None:
    world = soaking()
    world.ask("b", soak=LONG, rollout=PAUSED | {"abort": world.attempt.id})
    world.turn()
    assert world.live_digest() == digest("a")


def test_an_abort_with_nothing_to_go_back_to_holds_and_the_digest_is_rejected_all_the_same() -> None:
    world = World()
    world.ask("a", soak=LONG)
    world.until(Phase.SOAKING)
    world.ask("a", soak=LONG, rollout={"abort": world.attempt.id})
    world.run(300)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.NO_PREVIOUS)
    assert world.live_digest() == digest("a")
    assert world.status.rejected[0].reason == Reason.ABORTED
    world.ask("b", soak=LONG)
    world.run(120)
    assert world.live_digest() == digest("b")
    world.ask("a", soak=LONG)
    world.run(30)
    assert world.live_digest() == digest("b")


def test_an_abort_goes_back_as_soon_as_the_previous_side_is_ready() -> None:
    world = soaking()
    world.model("a").seconds_to_ready = 500
    world.ask("b", soak=LONG, rollout={"abort": world.attempt.id})
    world.run(20)
    assert (world.status.phase, world.live_digest()) == (Phase.HELD, digest("b"))
    world.model("a").seconds_to_ready = 1
    world.run(20)
    assert world.live_digest() == digest("a")
    assert len(world.status.rejected) == 1


@pytest.mark.case("R23")
def test_a_retry_token_tries_an_aborted_digest_again() -> None:
    world = starting()
    world.ask("b", rollout={"abort": world.attempt.id})
    world.run(5)
    world.model("b").seconds_to_ready = 1
    world.ask("b", rollout={"abort": world.attempt.id, "retryToken": "1"})
    world.run(40)
    assert world.live_digest() == digest("b")


# --- rollbackTo --------------------------------------------------------------------------------------------------


def three_served(**changes: Any) -> World:
    world = serving("a")
    for letter in "bc":
        world.ask(letter, **changes)
        world.run(60)
    assert world.live_digest() == digest("c")
    return world


def revision(world: World, letter: str) -> str:
    return next(h.revision for h in world.status.history if h.digest == digest(letter))


def test_a_revision_of_the_history_is_brought_up_by_an_ordinary_attempt() -> None:
    world = three_served()
    attempts = world.status.attempts
    world.ask("c", rollout={"rollbackTo": revision(world, "a")})
    world.until(Phase.SOAKING)
    assert (world.live_digest(), world.status.attempts) == (digest("a"), attempts + 1)
    world.run(60)
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.PINNED)
    assert conditions(world)["Pinned"] == ("True", Reason.PINNED)
    assert not world.status.rejected
    assert world.pods_of == {Colour.BLUE: 0, Colour.GREEN: 1}


def test_emptied_again_the_specs_own_revision_is_wanted_again() -> None:
    world = three_served()
    world.ask("c", rollout={"rollbackTo": revision(world, "b")})
    world.run(60)
    assert world.live_digest() == digest("b")
    world.ask("c")
    world.run(60)
    assert (world.live_digest(), world.status.reason) == (digest("c"), Reason.VERIFIED)
    assert "Pinned" not in conditions(world)


def test_a_new_spec_waits_while_a_revision_is_pinned() -> None:
    world = three_served()
    pin = {"rollbackTo": revision(world, "a")}
    world.ask("c", rollout=pin)
    world.run(60)
    world.ask("d", rollout=pin)
    world.run(60)
    assert world.live_digest() == digest("a")
    world.ask("d")
    world.run(60)
    assert world.live_digest() == digest("d")


@pytest.mark.case("R38")
def test_the_warm_previous_is_flipped_to_at_once_also_while_paused() -> None:
    world = soaking()
    world.ask("b", soak=LONG, rollout=PAUSED | {"rollbackTo": revision(world, "a")})
    world.turn()
    assert world.live_digest() == digest("a")
    world.run(40)
    assert (world.status.reason, world.status.rejected) == (Reason.PINNED, ())
    assert world.attempt.outcome == Reason.PINNED


def test_an_older_revision_named_in_the_soak_does_not_wait_for_the_verdict() -> None:
    world = three_served()
    world.ask("d", soak=LONG)
    world.until(Phase.SOAKING)
    world.ask("d", soak=LONG, rollout={"rollbackTo": revision(world, "a")})
    world.run(2)
    assert world.live_digest() == digest("c")
    world.run(100)
    assert world.live_digest() == digest("a")


def test_an_unknown_revision_changes_nothing_and_is_said() -> None:
    world = serving("a")
    world.ask("b", rollout={"rollbackTo": "0123456789ab"})
    world.run(40)
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.REVISION_UNKNOWN)
    assert (world.live_digest(), world.status.attempts) == (digest("a"), 1)
    assert revision(world, "a") in world.status.message
    assert conditions(world)["Pinned"] == ("False", Reason.REVISION_UNKNOWN)
    assert sum(event.reason == Reason.REVISION_UNKNOWN for event in world.events.values()) == 1
    world.ask("b")
    world.run(40)
    assert world.live_digest() == digest("b")


def test_an_unknown_revision_leaves_an_open_attempt_alone() -> None:
    world = soaking()
    world.ask("b", soak=LONG, rollout={"rollbackTo": "0123456789ab"})
    world.run(10)
    assert (world.status.phase, world.live_digest()) == (Phase.SOAKING, digest("b"))
    assert conditions(world)["Pinned"][0] == "False"


def test_a_pinned_revision_that_fails_leaves_what_serves() -> None:
    world = three_served()
    world.model("a").smoke = "wrong"
    world.ask("c", rollout={"rollbackTo": revision(world, "a")})
    world.run(40)
    assert (world.live_digest(), world.status.reason) == (digest("c"), Reason.SMOKE_FAILED)


def test_an_entry_without_a_recipe_cannot_be_brought_back() -> None:
    world = three_served()
    history = tuple(entry.with_(recipe=None) for entry in world.status.history[:1]) + world.status.history[1:]
    world.status = world.status.with_(history=history)
    world.ask("c", rollout={"rollbackTo": history[0].revision})
    world.run(10)
    assert (world.status.reason, world.live_digest()) == (Reason.REVISION_UNKNOWN, digest("c"))
    assert history[0].revision not in world.status.message.partition("can build")[2]


@given(
    pulls=st.lists(
        st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans(), st.sampled_from(["", "a", "x"])), max_size=5
    )
)
@settings(max_examples=12, deadline=None)
def test_whatever_is_pulled_ends_with_what_is_asked_for_once_it_is_let_go(
    pulls: list[tuple[str, bool, bool, str]],
) -> None:
    world = serving("a")
    first = revision(world, "a")
    for model, paused, abort, to in pulls:
        attempt = world.attempt.id if abort else ""
        pin = {"": "", "a": first, "x": "0123456789ab"}[to]
        world.ask(model, rollout={"paused": paused, "abort": attempt, "rollbackTo": pin})
        world.run(7, step=1.0)
        assert world.ready_behind_service[-1] >= 1
    world.ask("c", rollout={"retryToken": "now"})
    world.run(90, step=1.0)
    assert (world.status.phase, world.live_digest()) == (Phase.SERVING, digest("c"))
    assert len([live for live in world.deployments.values() if live.replicas]) == 1
