"""Conditions of the transition table while an attempt is open and the Service does not select its colour."""

from backstay_contract.evidence import VerdictKind
from backstay_contract.rollout import Policy

from backstay_operator.rollout import evaluating
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.guards.common import no_data_policy


def put_back(facts: Facts) -> bool:
    return facts.wanted_serves and not facts.switched


def failed_hard(facts: Facts) -> bool:
    return facts.hard_failure


def past_deadline(facts: Facts) -> bool:
    return facts.past_deadline


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
    return no_data_policy(facts, Policy.PROMOTE) and ready and facts.may_promote and not facts.paused


def dark_too_long_reject(facts: Facts) -> bool:
    return no_data_policy(facts, Policy.ROLLBACK)
