"""How a candidate ends that is not flipped to: dropped because another is wanted, or rejected."""

from typing import Any

from backstay_contract.reasons import Reason

from backstay_operator.rollout import evaluating
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.guards.before_flip import all_ready
from backstay_operator.rollout.step import Step
from backstay_operator.rollout.way_back import leaving
from backstay_operator.rollout.way_back.leaving import Cause
from backstay_operator.rollout.wording import (
    ended,
    failure_record,
    how_far,
    name_of,
    open_attempt_of,
    what_checks_wait_for,
)


def drop(facts: Facts) -> Step:
    attempt = open_attempt_of(facts)
    reason = Reason.SPEC_REVERTED if facts.wanted_serves else Reason.SPEC_CHANGED
    if facts.pinned:
        reason = Reason.PINNED
    who = "rollout.rollbackTo names" if facts.pinned else "the spec asks for"
    return Step(
        f"attempt {attempt.id} of {name_of(attempt.version, attempt.digest)} ends: {who} "
        f"{name_of(facts.wanted.version, facts.wanted.digest)}",
        {"attempt": ended(facts, reason)},
        reason=reason,
    )


def reject_failure(facts: Facts) -> Step:
    if facts.failure is None:
        raise LookupError("reject_failure is called without a failure")
    pod, failure = facts.failure
    record = failure_record(facts, pod, failure)
    return rejection(facts, failure.reason, f"pod {pod.name}: {failure.message}") | {"last_failure": record}


def reject_deadline(facts: Facts) -> Step:
    seconds = facts.spec.rollout.progress_deadline_seconds
    cause = f"{how_far(facts)}; {what_checks_wait_for(facts)}" if all_ready(facts) else how_far(facts)
    return rejection(facts, Reason.PROGRESS_DEADLINE_EXCEEDED, f"not in service after {seconds} s: {cause}") | (
        {"last_failure": failure_record(facts, *facts.failure)} if facts.failure else {}
    )


def reject_smoke(facts: Facts) -> Step:
    said = next(a for a in facts.observation.smoke if a.wrong)
    return rejection(facts, Reason.SMOKE_FAILED, f"pod {said.pod}: {said.message}")


def reject_evaluation(facts: Facts) -> Step:
    verdict = evaluating.found(facts)
    if verdict is None:
        raise LookupError("reject_evaluation is called without a verdict")
    return rejection(
        facts,
        Reason.EVALUATION_FAILED,
        verdict.message,
        metric=verdict.metric,
        observed=verdict.estimate,
        limit=verdict.limit,
    )


def reject_dark(facts: Facts) -> Step:
    return rejection(facts, Reason.METRICS_UNAVAILABLE, "no usable metrics for holdTimeoutSeconds before the flip")


def rejection(facts: Facts, reason: Reason, message: str, **numbers: Any) -> Step:
    """End the attempt and remember that its digest may not be tried again by itself."""
    attempt = open_attempt_of(facts)
    return Step(
        f"{name_of(attempt.version, attempt.digest)} is rejected: {reason}: {message}",
        {
            "attempt": ended(facts, reason),
            "rejected": leaving.rejected(facts, attempt, Cause(reason, message, **numbers)),
        },
        reason=reason,
    )
