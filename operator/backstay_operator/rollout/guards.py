"""The conditions of the transition table: each a pure question to the facts, named as the table reads."""

from backstay_contract.evidence import VerdictKind
from backstay_contract.reasons import Reason
from backstay_contract.rollout import Policy, Promotion, WhenSpecChanges
from backstay_contract.status import Phase

from backstay_operator.rollout import evaluating, room, watching, ways
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.ways import Way


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


def rejection_unrecorded(facts: Facts) -> bool:
    """The last flip rejected what it left, and the status does not say so."""
    return facts.left_unrecorded is not None


def soak_unrecorded(facts: Facts) -> bool:
    """The status was lost: what serves is soaked anew."""
    return facts.unjudged


def hold_goes_on(facts: Facts) -> bool:
    """At rest: until the judge passes the revision, a person asks for another one, or the alert is over."""
    active, reason = facts.active, facts.status.reason
    if active is None or facts.something_new_is_asked or facts.wanted.revision != facts.aim.revision:
        return False
    watched = bool(watching.limits(facts.spec, facts.status, active.revision))
    return watched and reason != Reason.ALERT and not facts.verdict_is(VerdictKind.PASS)


def passed_in_degraded_mode(facts: Facts) -> bool:
    return facts.degraded and facts.verdict_is(VerdictKind.PASS)


# --- troubles, in the soak and after it --------------------------------------------------------------------------


def trouble_and_previous_ready(facts: Facts) -> bool:
    return _leads_to(facts, Way.FLIP)


def trouble_and_slow_way_back(facts: Facts) -> bool:
    return _leads_to(facts, Way.RETURN)


def trouble_to_degrade_for(facts: Facts) -> bool:
    return _leads_to(facts, Way.DEGRADE)


def trouble_to_hold_for(facts: Facts) -> bool:
    """A rule says so, the cause is shared, or there is nothing to go back to."""
    return _leads_to(facts, Way.HOLD, Way.SHARED, Way.NOWHERE)


def _leads_to(facts: Facts, *found: Way) -> bool:
    course = ways.course(facts)
    return course is not None and course.way in found


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
    return room.shortage(facts) is not None or any(pod.unschedulable for pod in facts.candidate_pods)


def active_is_in_the_way(facts: Facts) -> bool:
    """rollout.strategy is Recreate, and the active colour still has pods."""
    return room.active_is_in_the_way(facts) and (facts.candidate is None or facts.candidate.replicas == 0)


def recreate_is_paused(facts: Facts) -> bool:
    return facts.recreates and facts.paused


def recreated_in_vain(facts: Facts) -> bool:
    """The active colour is down, and the candidate found no room in time."""
    down = facts.recreates and facts.active is not None and facts.active.replicas == 0
    return down and facts.past_deadline


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
    dark = facts.smoke_passed and facts.has_limits and attempt is not None and attempt.held_since is not None
    return dark and not facts.returns and not facts.recreates


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


def cold_previous_is_wanted(facts: Facts) -> bool:
    """What served before is asked for again, and it is not kept warm."""
    if facts.attempt is None or facts.rejection is not None:
        return False
    other = facts.observation.colours[facts.attempt.colour.other]
    return other.replicas == 0 and other.revision == facts.wanted.revision != facts.attempt.revision


def aborted_and_previous_ready(facts: Facts) -> bool:
    return facts.aborted and facts.previous_ready


def overruled(facts: Facts) -> bool:
    """A person names the attempt for it to be promoted although it is held. With manual promotion the same name stands
    there since the flip, so that it says nothing."""
    rollout, attempt = facts.spec.rollout, facts.attempt
    named = attempt is not None and rollout.promote == attempt.id and rollout.promotion is Promotion.AUTOMATIC
    return named and facts.candidate_ready > 0 and not facts.hard_failure and not facts.aborted


def superseded(facts: Facts) -> bool:
    """A third revision is wanted, and the policy is not to wait for the verdict on the second."""
    supersedes = facts.spec.rollout.when_spec_changes_in_soak is WhenSpecChanges.SUPERSEDE
    held = facts.status.phase is Phase.HELD
    at_once = (supersedes and not facts.paused) or held or facts.pinned or facts.returns
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
    return _soak_over(facts, Policy.PROMOTE) and not suspect(facts)


def soak_over_hold(facts: Facts) -> bool:
    nowhere = _soak_over(facts, Policy.ROLLBACK) and not facts.previous_ready
    return _soak_over(facts, Policy.HOLD) or nowhere or (_soak_over(facts, Policy.PROMOTE) and suspect(facts))


def soak_over_go_back(facts: Facts) -> bool:
    return _soak_over(facts, Policy.ROLLBACK) and facts.previous_ready


def _soak_over(facts: Facts, policy: Policy) -> bool:
    """A slow way back ends with what it brought back: its policy is to promote."""
    rollout = facts.spec.rollout
    over = facts.has_limits and facts.observed_seconds >= rollout.soak.max_seconds and not facts.paused
    return over and policy is (Policy.PROMOTE if facts.returns else rollout.soak.on_insufficient_data)


def suspect(facts: Facts) -> bool:
    """There is enough evidence against the revision, and all that is missing is whether it is one pod's fault: that is
    no lack of data, and nobody's wish to promote."""
    return any(
        m.verdict is VerdictKind.POD_OUTLIER
        or (m.e_value is not None and m.breach_at is not None and m.e_value >= m.breach_at)
        for m in (facts.verdict.metrics if facts.verdict is not None else facts.status.verdicts)
    )


def dark_in_soak_promote(facts: Facts) -> bool:
    return _no_data_policy(facts, Policy.PROMOTE) and not suspect(facts)


def dark_in_soak_hold(facts: Facts) -> bool:
    nowhere = _no_data_policy(facts, Policy.ROLLBACK) and not facts.previous_ready
    return _no_data_policy(facts, Policy.HOLD) or nowhere or (_no_data_policy(facts, Policy.PROMOTE) and suspect(facts))


def dark_in_soak_go_back(facts: Facts) -> bool:
    return _no_data_policy(facts, Policy.ROLLBACK) and facts.previous_ready


def cause_of_hold(facts: Facts) -> Reason | None:
    """Why a hold begins or goes on, as far as this pass can see it. Never asked of the status: a person's edit, or an
    invalid spec in between, may have changed what it says."""
    course = ways.course(facts)
    if course is not None and course.way in (Way.HOLD, Way.SHARED, Way.NOWHERE):
        return course.reason
    if soak_over_hold(facts):
        return Reason.POD_OUTLIER if suspect(facts) else Reason.INSUFFICIENT_DATA
    return Reason.NO_DATA if dark_in_soak_hold(facts) else None


def cause_of_hold_is_gone(facts: Facts) -> bool:
    """There is data again, the pods are well again, or the policy is another."""
    return facts.looked and cause_of_hold(facts) is None


def loser_has_no_traffic(facts: Facts) -> bool:
    """The EndpointSlices of the Service show the active colour only."""
    if facts.active_colour is None:
        return True
    return facts.observation.colours[facts.active_colour.other].endpoints == 0
