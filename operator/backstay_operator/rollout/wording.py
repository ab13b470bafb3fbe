"""What several actions say and remember: a model's name, how far a candidate is, its last failure."""

from typing import Any

from backstay_contract import digest
from backstay_contract.reasons import Reason
from backstay_contract.status import Attempt, Failure

from backstay_operator.rollout import evaluating
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.observation import Pod, PodFailure

ABORTED = "a person aborted the attempt"


def open_attempt_of(facts: Facts) -> Attempt:
    """The open attempt; the table only calls actions that need one where there is one."""
    if facts.attempt is None:
        raise LookupError("no attempt is open: the transition table has a row in the wrong stage")
    return facts.attempt


def name_of(version: str, of_digest: str) -> str:
    """A model as sentences name it."""
    return f"{version} ({digest.short(of_digest)})"


def remember(facts: Facts) -> dict[str, Any]:
    """The attempt with this pass's look at the metrics, its verdicts, and the failure that may pass."""
    changes: dict[str, Any] = {}
    if facts.attempt is not None:
        changes["attempt"] = facts.attempt
    if facts.verdict is not None and facts.switched:
        changes["verdicts"] = facts.verdict.metrics
    if facts.failure is not None:
        changes["last_failure"] = failure_record(facts, *facts.failure)
    return changes


def how_far(facts: Facts) -> str:
    attempt = facts.attempt
    if attempt is None:
        return "nothing to do"
    if facts.failure is not None:
        pod, failure = facts.failure
        return f"pod {pod.name}: {failure.reason}: {failure.message}"
    waits = next((f"; {pod.unschedulable}" for pod in facts.candidate_pods if pod.unschedulable), "")
    if facts.candidate is not None and facts.candidate.problem:
        waits += f"; {facts.candidate.problem}"
    return f"{attempt.version}: {facts.candidate_ready} of {facts.candidate_wanted} pods ready{waits}"


def what_checks_wait_for(facts: Facts) -> str:
    """What the checks wait for."""
    if facts.smoke_passed and not facts.evaluated:
        return evaluating.progress(facts)
    if facts.smoke_passed:
        return "the first counters of the candidate are read"
    if facts.every_ready_pod_passed:
        return "the smoke inference passed; the control port of a pod does not tell its limits, or the pods' differ"
    return next((a.message for a in facts.observation.smoke if not a.passed), "the smoke inference has not answered")


def ended(facts: Facts, reason: Reason) -> Attempt:
    """The open attempt, decided; its evidence is kept to be read."""
    return open_attempt_of(facts).with_(ended_at=facts.now, outcome=reason.value)


def failure_record(facts: Facts, pod: Pod, failure: PodFailure) -> Failure:
    before = facts.status.last_failure
    record = Failure(
        reason=failure.reason.value,
        message=failure.message[:1024],
        exit_code=failure.exit_code,
        pod=pod.name,
        container=failure.container,
        log_tail=failure.log_tail,
        at=facts.now,
    )
    same = before is not None and before.with_(at=facts.now) == record
    return before if same and before is not None else record
