"""Conditions of the transition table while an attempt is open and the Service selects its colour."""

from backstay_contract.evidence import VerdictKind
from backstay_contract.reasons import Reason
from backstay_contract.rollout import Policy, Promotion, WhenSpecChanges
from backstay_contract.status import Phase

from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.guards.common import another_is_wanted, no_data_policy
from backstay_operator.rollout.way_back import ways
from backstay_operator.rollout.way_back.ways import Way


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
    return no_data_policy(facts, Policy.PROMOTE) and not suspect(facts)


def dark_in_soak_hold(facts: Facts) -> bool:
    nowhere = no_data_policy(facts, Policy.ROLLBACK) and not facts.previous_ready
    return no_data_policy(facts, Policy.HOLD) or nowhere or (no_data_policy(facts, Policy.PROMOTE) and suspect(facts))


def dark_in_soak_go_back(facts: Facts) -> bool:
    return no_data_policy(facts, Policy.ROLLBACK) and facts.previous_ready


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
