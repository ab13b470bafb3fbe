"""The conditions of the transition table: each a pure question to the facts, named as the table reads."""

from backstay_contract.evidence import VerdictKind
from backstay_contract.reasons import Reason
from backstay_contract.rollout import Policy, WhenSpecChanges
from backstay_contract.status import Phase

from backstay_operator.rollout import evaluating
from backstay_operator.rollout.facts import Facts


def always(_: Facts) -> bool:
    return True


# --- at rest -----------------------------------------------------------------------------------------------------


def pin_is_unknown(facts: Facts) -> bool:
    """rollout.rollbackTo names a revision that the history cannot build."""
    return facts.pin_is_unknown


def wanted_serves(facts: Facts) -> bool:
    return facts.wanted_serves


def wanted_is_rejected(facts: Facts) -> bool:
    return facts.rejection is not None


def paused(facts: Facts) -> bool:
    return facts.paused


def colour_is_busy(facts: Facts) -> bool:
    return facts.free_colour is None


# --- an open attempt, before the flip ----------------------------------------------------------------------------


def flip_unrecorded(facts: Facts) -> bool:
    """The flip was made, and the pass that made it ended before it could say so."""
    return facts.attempt is not None and facts.switched and facts.attempt.switched_at is None


def aborted(facts: Facts) -> bool:
    return facts.aborted


def put_back(facts: Facts) -> bool:
    return facts.wanted_serves and not facts.switched


def another_is_wanted(facts: Facts) -> bool:
    return facts.attempt is not None and facts.wanted.revision != facts.attempt.revision


def failed_hard(facts: Facts) -> bool:
    return facts.hard_failure


def past_deadline(facts: Facts) -> bool:
    return facts.past_deadline


def no_room(facts: Facts) -> bool:
    return any(pod.unschedulable for pod in facts.candidate_pods)


def all_ready(facts: Facts) -> bool:
    return facts.candidate_ready >= facts.candidate_wanted


def not_ready(facts: Facts) -> bool:
    """A pod is missing, or one came after the check: no pass need have seen the time between the two."""
    return not all_ready(facts) or (facts.smoke_passed and not facts.every_ready_pod_passed)


def smoke_is_wrong(facts: Facts) -> bool:
    return any(answer.wrong for answer in facts.observation.smoke)


def smoke_is_new(facts: Facts) -> bool:
    """Every ready pod answered the smoke inference rightly, and their limits are known: to be remembered."""
    return not facts.smoke_passed and facts.every_ready_pod_passed and facts.observation.limits_known


def evaluation_is_bad(facts: Facts) -> bool:
    """The model is beyond its limit on its own evaluation set. A way back waits for no text."""
    verdict = None if facts.evaluated else evaluating.found(facts)
    return verdict is not None and verdict.verdict is VerdictKind.BREACH


def evaluation_is_new(facts: Facts) -> bool:
    """What the evaluation set says is known: to be remembered."""
    return facts.smoke_passed and not facts.evaluated and not evaluating.waits(evaluating.found(facts))


def metrics_are_dark(facts: Facts) -> bool:
    """Something is to be judged, and a look found no usable metrics of the candidate."""
    attempt = facts.attempt
    return facts.smoke_passed and facts.has_limits and attempt is not None and attempt.held_since is not None


def metrics_are_read(facts: Facts) -> bool:
    return not metrics_are_dark(facts)


def only_the_pause_stops_the_flip(facts: Facts) -> bool:
    return facts.paused and _passed(facts)


def waits_for_person(facts: Facts) -> bool:
    return facts.smoke_passed and facts.evaluated and facts.base_taken and not facts.may_promote


def may_flip(facts: Facts) -> bool:
    return _passed(facts) and not facts.paused


def _passed(facts: Facts) -> bool:
    checked = facts.smoke_passed and facts.evaluated and facts.base_taken
    return checked and facts.may_promote and all_ready(facts)


def dark_too_long_promote(facts: Facts) -> bool:
    ready = all_ready(facts) and facts.evaluated
    return _no_data_policy(facts, Policy.PROMOTE) and ready and facts.may_promote and not facts.paused


def dark_too_long_reject(facts: Facts) -> bool:
    return _no_data_policy(facts, Policy.ROLLBACK)


def _no_data_policy(facts: Facts, policy: Policy) -> bool:
    return facts.held_too_long and facts.spec.rollout.soak.on_no_data is policy


# --- an open attempt, after the flip -----------------------------------------------------------------------------


def went_back_unrecorded(facts: Facts) -> bool:
    """The flip back was made, and the pass that made it ended before it could say so."""
    return facts.attempt is not None and not facts.switched and facts.attempt.switched_at is not None


def previous_is_wanted(facts: Facts) -> bool:
    return facts.previous_ready and facts.previous is not None and facts.wanted.revision == facts.previous.revision


def aborted_and_previous_ready(facts: Facts) -> bool:
    return facts.aborted and facts.previous_ready


def candidate_died(facts: Facts) -> bool:
    """No pod is left that could answer, whatever took them: also where their Deployment was deleted."""
    return facts.hard_failure or facts.candidate_ready == 0


def candidate_died_and_previous_ready(facts: Facts) -> bool:
    return candidate_died(facts) and facts.previous_ready


def breach(facts: Facts) -> bool:
    return facts.verdict_is(VerdictKind.BREACH)


def breach_and_previous_ready(facts: Facts) -> bool:
    return breach(facts) and facts.previous_ready


def bad_and_nowhere_to_go(facts: Facts) -> bool:
    return (breach(facts) or candidate_died(facts) or facts.aborted) and not facts.previous_ready


def superseded(facts: Facts) -> bool:
    """A third revision is wanted, and the policy is not to wait for the verdict on the second."""
    supersedes = facts.spec.rollout.when_spec_changes_in_soak is WhenSpecChanges.SUPERSEDE
    held = facts.status.phase is Phase.HELD
    at_once = (supersedes and not facts.paused) or held or facts.pinned
    return another_is_wanted(facts) and at_once and facts.rejection is None


def superseded_and_previous_ready(facts: Facts) -> bool:
    return superseded(facts) and facts.previous_ready


def superseded_and_no_previous(facts: Facts) -> bool:
    """Nothing to go back to first. While held, a previous colour without a ready pod is nothing, too: the third
    revision may be the cure."""
    held = facts.status.phase is Phase.HELD
    return superseded(facts) and (facts.previous is None or (held and not facts.previous_ready))


def verified(facts: Facts) -> bool:
    return facts.verdict_is(VerdictKind.PASS) and _soak_may_end(facts)


def nothing_to_judge(facts: Facts) -> bool:
    return not facts.has_limits and _soak_may_end(facts)


def _soak_may_end(facts: Facts) -> bool:
    """Long enough, and no person is against it."""
    rollout = facts.spec.rollout
    return facts.observed_seconds >= rollout.soak.min_seconds and not facts.paused and not facts.aborted


def soak_over_promote(facts: Facts) -> bool:
    return _soak_over(facts, Policy.PROMOTE)


def soak_over_hold(facts: Facts) -> bool:
    return _soak_over(facts, Policy.HOLD) or (_soak_over(facts, Policy.ROLLBACK) and not facts.previous_ready)


def soak_over_go_back(facts: Facts) -> bool:
    return _soak_over(facts, Policy.ROLLBACK) and facts.previous_ready


def _soak_over(facts: Facts, policy: Policy) -> bool:
    rollout = facts.spec.rollout
    over = facts.has_limits and facts.observed_seconds >= rollout.soak.max_seconds and not facts.paused
    return over and rollout.soak.on_insufficient_data is policy


def dark_in_soak_promote(facts: Facts) -> bool:
    return _no_data_policy(facts, Policy.PROMOTE)


def dark_in_soak_hold(facts: Facts) -> bool:
    nowhere = _no_data_policy(facts, Policy.ROLLBACK) and not facts.previous_ready
    return _no_data_policy(facts, Policy.HOLD) or nowhere


def dark_in_soak_go_back(facts: Facts) -> bool:
    return _no_data_policy(facts, Policy.ROLLBACK) and facts.previous_ready


def cause_of_hold(facts: Facts) -> Reason | None:
    """Why a hold begins or goes on, as far as this pass can see it. Never asked of the status: a person's edit, or an
    invalid spec in between, may have changed what it says."""
    if bad_and_nowhere_to_go(facts):
        return Reason.NO_PREVIOUS
    if soak_over_hold(facts):
        return Reason.INSUFFICIENT_DATA
    return Reason.NO_DATA if dark_in_soak_hold(facts) else None


def cause_of_hold_is_gone(facts: Facts) -> bool:
    """There is data again, the pods are well again, or the policy is another."""
    return facts.looked and cause_of_hold(facts) is None


def loser_has_no_traffic(facts: Facts) -> bool:
    """The EndpointSlices of the Service show the active colour only."""
    if facts.active_colour is None:
        return True
    return facts.observation.colours[facts.active_colour.other].endpoints == 0
