"""Conditions of the transition table that are asked in several stages of an attempt.

Each guard is a pure question to the facts, named as the table reads.
"""

from backstay_contract.evidence import VerdictKind
from backstay_contract.rollout import Policy

from backstay_operator.rollout import room
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.way_back import ways
from backstay_operator.rollout.way_back.ways import Way


def always(_: Facts) -> bool:
    return True


def passed_in_degraded_mode(facts: Facts) -> bool:
    return facts.degraded and facts.verdict_is(VerdictKind.PASS)


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


def flip_unrecorded(facts: Facts) -> bool:
    """The flip was made, and the pass that made it ended before it could say so."""
    return facts.attempt is not None and facts.switched and facts.attempt.switched_at is None


def aborted(facts: Facts) -> bool:
    return facts.aborted


def another_is_wanted(facts: Facts) -> bool:
    return facts.attempt is not None and facts.wanted.revision != facts.attempt.revision


def no_room(facts: Facts) -> bool:
    return room.shortage(facts) is not None or any(pod.unschedulable for pod in facts.candidate_pods)


def active_is_in_the_way(facts: Facts) -> bool:
    """rollout.strategy is Recreate, and the active colour still has pods."""
    return room.active_is_in_the_way(facts) and (facts.candidate is None or facts.candidate.replicas == 0)


def no_data_policy(facts: Facts, policy: Policy) -> bool:
    """There was no data for too long, and that is the policy for it."""
    return facts.held_too_long and facts.spec.rollout.soak.on_no_data is policy
