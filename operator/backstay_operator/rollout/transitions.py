"""The rollout machine as a table. The diagram in docs/rollout.md is drawn from it.

A pass takes the first row whose phase, stage and guard fit; each phase ends with a row that always fits, so the
machine is total. Nothing else decides.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from backstay_contract.reasons import Reason
from backstay_contract.status import Phase

from backstay_operator.rollout.actions import at_rest, degrading, levers, making_room, returning, soaking
from backstay_operator.rollout.actions import giving_up as give_up
from backstay_operator.rollout.actions import going_back as back
from backstay_operator.rollout.actions import going_forward as forward
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.guards import after_flip as after
from backstay_operator.rollout.guards import at_rest as resting
from backstay_operator.rollout.guards import before_flip as before
from backstay_operator.rollout.guards import common as when
from backstay_operator.rollout.step import Step


class Stage(StrEnum):
    """Where an attempt stands, as the live Service says."""

    REST = "rest"
    """No attempt is open."""
    TRIED = "tried"
    """An attempt is open and the Service does not select its colour."""
    SWITCHED = "switched"
    """An attempt is open and the Service selects its colour."""


class Tell(StrEnum):
    """How a transition is told to people."""

    NOTHING = "nothing"
    NORMAL = "Normal"
    WARNING = "Warning"


class Transition(NamedTuple):
    sources: tuple[Phase, ...]
    stage: Stage
    guard: Callable[[Facts], bool]
    target: Phase
    """The next phase; where nothing serves yet, `without_active` instead."""
    action: Callable[[Facts], Step]
    reason: Reason
    tell: Tell = Tell.NORMAL
    without_active: Phase | None = None


P = Phase
REST, TRIED, SWITCHED = Stage.REST, Stage.TRIED, Stage.SWITCHED
AT_REST = (P.PENDING, P.SERVING, P.FAILED, P.HELD)
BEFORE = (P.PENDING, P.STARTING, P.CHECKING, P.AWAITING_PROMOTION, P.HELD)
GATE = (P.CHECKING, P.AWAITING_PROMOTION, P.HELD)
AFTER = (P.SOAKING, P.HELD)
QUIET, WARN = Tell.NOTHING, Tell.WARNING
R = Reason
T = Transition

TRANSITIONS: tuple[Transition, ...] = (
    # A pass ended between the flip and the status write.
    T((*BEFORE, P.SERVING), SWITCHED, when.flip_unrecorded, P.SOAKING, forward.begin_soak, R.PROMOTED),
    T(AFTER, TRIED, after.went_back_unrecorded, P.ROLLING_BACK, back.record_way_back, R.ROLLED_BACK, WARN),
    # At rest.
    T((P.ROLLING_BACK,), REST, resting.loser_has_no_traffic, P.SERVING, back.finish, R.ROLLED_BACK, QUIET),
    T((P.ROLLING_BACK,), REST, when.always, P.ROLLING_BACK, back.wait, R.ROLLED_BACK, QUIET),
    T(AT_REST, REST, resting.rejection_unrecorded, P.ROLLING_BACK, back.record_rejection, R.ROLLED_BACK, WARN),
    T(AT_REST, REST, resting.soak_unrecorded, P.SOAKING, forward.soak_anew, R.SOAKING),
    # … and in trouble all the same: the watch, an alert, or a slow way back that could not be gone.
    T(AT_REST, REST, when.trouble_and_previous_ready, P.ROLLING_BACK, back.go_back_at_rest, R.BREACH, WARN),
    T(AT_REST, REST, when.trouble_and_slow_way_back, P.SERVING, returning.begin, R.RETURNING, WARN),
    T(AT_REST, REST, when.trouble_to_degrade_for, P.SERVING, degrading.stay, R.DEGRADED, WARN),
    T(AT_REST, REST, when.trouble_to_hold_for, P.HELD, at_rest.hold, R.BREACH, WARN),
    T((P.HELD,), REST, resting.hold_goes_on, P.HELD, at_rest.hold_on, R.BREACH, QUIET),
    T(AT_REST, REST, when.passed_in_degraded_mode, P.SERVING, degrading.recover, R.RECOVERED),
    T(AT_REST, REST, resting.pin_is_unknown, P.SERVING, levers.say_unknown, R.REVISION_UNKNOWN, WARN, P.PENDING),
    T(AT_REST, REST, resting.wanted_serves, P.SERVING, at_rest.settle, R.SERVING, QUIET),
    T(AT_REST, REST, resting.wanted_is_rejected, P.SERVING, at_rest.refuse, R.REVISION_REJECTED, QUIET, P.FAILED),
    T(AT_REST, REST, resting.paused, P.SERVING, levers.wait_for_resume, R.PAUSED, Tell.NORMAL, P.PENDING),
    T(AT_REST, REST, resting.colour_is_busy, P.SERVING, at_rest.wait_for_drain, R.WAITING_FOR_DRAIN, QUIET, P.PENDING),
    T(AT_REST, REST, when.no_room, P.PENDING, making_room.open_to_wait, R.INSUFFICIENT_CAPACITY, WARN),
    T(AT_REST, REST, when.active_is_in_the_way, P.PENDING, making_room.open_to_recreate, R.RECREATING),
    T(AT_REST, REST, when.always, P.STARTING, at_rest.open_attempt, R.NEW_REVISION),
    # An attempt before the flip: what ends it.
    T(BEFORE, TRIED, when.aborted, P.SERVING, levers.reject_aborted, R.ABORTED, WARN, P.FAILED),
    T(BEFORE, TRIED, before.put_back, P.SERVING, give_up.drop, R.SPEC_REVERTED),
    T(BEFORE, TRIED, when.another_is_wanted, P.SERVING, give_up.drop, R.SPEC_CHANGED, Tell.NORMAL, P.PENDING),
    T(BEFORE, TRIED, before.failed_hard, P.SERVING, give_up.reject_failure, R.CRASH_LOOP, WARN, P.FAILED),
    T((P.PENDING,), TRIED, before.recreated_in_vain, P.SERVING, making_room.reject,
      R.INSUFFICIENT_CAPACITY, WARN, P.FAILED),
    T((P.STARTING, P.CHECKING), TRIED, before.past_deadline, P.SERVING, give_up.reject_deadline,
      R.PROGRESS_DEADLINE_EXCEEDED, WARN, P.FAILED),
    # … and what brings it on.
    T(BEFORE, TRIED, before.recreate_is_paused, P.PENDING, making_room.step_back, R.PAUSED),
    T((P.PENDING, P.STARTING), TRIED, when.no_room, P.PENDING, making_room.wait_for_nodes,
      R.INSUFFICIENT_CAPACITY, WARN),
    T((P.PENDING, P.STARTING), TRIED, when.active_is_in_the_way, P.PENDING, making_room.wait_for_active, R.RECREATING),
    T((P.PENDING,), TRIED, when.always, P.STARTING, forward.progress, R.STARTING, QUIET),
    T((P.STARTING,), TRIED, before.all_ready, P.CHECKING, forward.check, R.CHECKING),
    T((P.STARTING,), TRIED, when.always, P.STARTING, forward.stay, R.STARTING, QUIET),
    T(GATE, TRIED, before.not_ready, P.STARTING, forward.close_gate, R.STARTING, QUIET),
    T((P.CHECKING,), TRIED, before.smoke_is_wrong, P.SERVING, give_up.reject_smoke, R.SMOKE_FAILED, WARN, P.FAILED),
    T((P.CHECKING,), TRIED, before.smoke_is_new, P.CHECKING, forward.remember_smoke, R.CHECKING, QUIET),
    T((P.CHECKING,), TRIED, before.evaluation_is_bad, P.SERVING, give_up.reject_evaluation,
      R.EVALUATION_FAILED, WARN, P.FAILED),
    T((P.CHECKING,), TRIED, before.evaluation_is_new, P.CHECKING, forward.remember_evaluation, R.CHECKING, QUIET),
    T((P.HELD,), TRIED, before.dark_too_long_reject, P.SERVING, give_up.reject_dark,
      R.METRICS_UNAVAILABLE, WARN, P.FAILED),
    T((P.HELD,), TRIED, before.dark_too_long_promote, P.SOAKING, forward.flip, R.PROMOTED, WARN),
    T((P.HELD,), TRIED, before.metrics_are_read, P.CHECKING, forward.progress, R.CHECKING),
    T((P.HELD,), TRIED, when.always, P.HELD, forward.hold_dark, R.METRICS_UNAVAILABLE, QUIET),
    T((P.CHECKING, P.AWAITING_PROMOTION), TRIED, before.metrics_are_dark, P.HELD, forward.hold_dark,
      R.METRICS_UNAVAILABLE, WARN),
    T((P.CHECKING, P.AWAITING_PROMOTION), TRIED, before.may_flip, P.SOAKING, forward.flip, R.PROMOTED),
    T((P.CHECKING, P.AWAITING_PROMOTION), TRIED, before.only_the_pause_stops_the_flip, P.AWAITING_PROMOTION,
      levers.hold_flip, R.PAUSED),
    T((P.CHECKING,), TRIED, before.waits_for_person, P.AWAITING_PROMOTION, forward.await_person, R.AWAITING_PROMOTION),
    T((P.CHECKING,), TRIED, when.always, P.CHECKING, forward.check_pending, R.SMOKE_PENDING, QUIET),
    T((P.AWAITING_PROMOTION,), TRIED, when.always, P.AWAITING_PROMOTION, forward.await_person,
      R.AWAITING_PROMOTION, QUIET),
    # After the flip: the way back first.
    T(AFTER, SWITCHED, after.aborted_and_previous_ready, P.ROLLING_BACK, back.go_back_aborted, R.ABORTED, WARN),
    T(AFTER, SWITCHED, after.previous_is_wanted, P.ROLLING_BACK, back.go_back_reverted, R.SPEC_REVERTED),
    T(AFTER, SWITCHED, after.cold_previous_is_wanted, P.SERVING, soaking.end_reverted, R.SPEC_REVERTED),
    T(AFTER, SWITCHED, when.trouble_and_previous_ready, P.ROLLING_BACK, back.go_back_trouble, R.BREACH, WARN),
    T(AFTER, SWITCHED, when.trouble_and_slow_way_back, P.SERVING, returning.begin_in_soak, R.RETURNING, WARN),
    T((P.SOAKING,), SWITCHED, when.aborted, P.HELD, levers.hold_aborted, R.NO_PREVIOUS, WARN),
    T(AFTER, SWITCHED, when.trouble_to_degrade_for, P.SERVING, degrading.stay_in_soak, R.DEGRADED, WARN),
    T((P.HELD,), SWITCHED, after.overruled, P.SERVING, soaking.end_overruled, R.OVERRULED),
    T((P.SOAKING,), SWITCHED, when.trouble_to_hold_for, P.HELD, soaking.hold_trouble, R.NO_PREVIOUS, WARN),
    T(AFTER, SWITCHED, after.superseded_and_previous_ready, P.ROLLING_BACK, back.go_back_superseded, R.SUPERSEDED),
    T(AFTER, SWITCHED, after.superseded_and_no_previous, P.SERVING, soaking.end_superseded, R.SUPERSEDED),
    T(AFTER, SWITCHED, when.passed_in_degraded_mode, P.SOAKING, degrading.recover_in_soak, R.RECOVERED),
    T(AFTER, SWITCHED, after.verified, P.SERVING, soaking.verify, R.VERIFIED),
    T((P.SOAKING,), SWITCHED, after.nothing_to_judge, P.SERVING, soaking.end_unjudged, R.NO_BASELINES),
    T((P.SOAKING,), SWITCHED, after.soak_over_go_back, P.ROLLING_BACK, back.go_back_insufficient,
      R.INSUFFICIENT_DATA, WARN),
    T((P.SOAKING,), SWITCHED, after.soak_over_promote, P.SERVING, soaking.end_insufficient, R.INSUFFICIENT_DATA, WARN),
    T((P.SOAKING,), SWITCHED, after.soak_over_hold, P.HELD, soaking.hold, R.INSUFFICIENT_DATA, WARN),
    T(AFTER, SWITCHED, after.dark_in_soak_go_back, P.ROLLING_BACK, back.go_back_dark, R.NO_DATA, WARN),
    T((P.SOAKING,), SWITCHED, after.dark_in_soak_promote, P.SERVING, soaking.end_without_data, R.NO_DATA, WARN),
    T((P.SOAKING,), SWITCHED, after.dark_in_soak_hold, P.HELD, soaking.hold, R.NO_DATA, WARN),
    T((P.HELD,), SWITCHED, after.cause_of_hold_is_gone, P.SOAKING, soaking.soak_on, R.SOAKING),
    T((P.HELD,), SWITCHED, when.always, P.HELD, soaking.hold_on, R.INSUFFICIENT_DATA, QUIET),
    T((P.SOAKING,), SWITCHED, when.always, P.SOAKING, soaking.soak_on, R.SOAKING, QUIET),
)  # fmt: skip
