"""What the rows of the transition table do before and beside the flip; the way back is in `going_back`."""

from typing import Any

from backstay_contract import digest
from backstay_contract.reasons import Reason
from backstay_contract.status import (
    MAX_HISTORY,
    MAX_REJECTED,
    Attempt,
    Colour,
    Failure,
    HistoryEntry,
    MetricLimit,
    Phase,
    Rejection,
)

from backstay_operator.rollout import memory
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.guards import all_ready, cause_of_hold
from backstay_operator.rollout.observation import FlipRecord, Pod, PodFailure
from backstay_operator.rollout.step import Step


def open_attempt_of(facts: Facts) -> Attempt:
    """The open attempt; the table only calls actions that need one where there is one."""
    if facts.attempt is None:
        raise LookupError("no attempt is open: the transition table has a row in the wrong stage")
    return facts.attempt


def name_of(version: str, of_digest: str) -> str:
    """A model as sentences name it."""
    return f"{version} ({digest.short(of_digest)})"


# --- at rest -----------------------------------------------------------------------------------------------------


def settle(facts: Facts) -> Step:
    """What is asked for serves: the reason is how it came into service."""
    status, active = facts.status, facts.active
    last = next((h for h in reversed(status.history) if active and h.revision == active.revision), None)
    reason = memory.reason(last.reason, Reason.SERVING) if last else Reason.SERVING
    if status.reason == Reason.SPEC_REVERTED:
        reason = Reason.SPEC_REVERTED
    if facts.active_vanished:
        said = f"{name_of(facts.wanted.version, facts.wanted.digest)}: its Deployment was deleted and is built again"
        return Step(said, reason=reason)
    name = name_of(active.version, active.digest) if active and active.digest else "nothing"
    return Step(f"{name} serves", reason=reason)


def refuse(facts: Facts) -> Step:
    rejected = facts.rejection
    if rejected is None:
        raise LookupError("refuse is called for a digest that was not rejected")
    return Step(
        f"{name_of(rejected.version, rejected.digest)} was rejected: {rejected.reason}"
        f"{_numbers(rejected)}; change spec.rollout.retryToken to try it again",
        reason=memory.reason(rejected.reason, Reason.REVISION_REJECTED),
    )


def _numbers(rejected: Rejection) -> str:
    if rejected.metric is None or rejected.observed is None or rejected.limit is None:
        return ""
    return f" of {rejected.metric}, {rejected.observed:.4g} beyond the limit {rejected.limit:g}"


def wait_for_drain(facts: Facts) -> Step:
    wanted, losing = facts.wanted, facts.active_colour.other if facts.active_colour else Colour.BLUE
    pods = [pod.name for pod in facts.observation.colours[losing].pods]
    named = f": {', '.join(pods[:3])}{' …' if len(pods) > 3 else ''}" if pods else ""
    return Step(f"{name_of(wanted.version, wanted.digest)} waits until {losing}'s pods have ended{named}")


def open_attempt(facts: Facts) -> Step:
    colour, wanted = facts.free_colour, facts.wanted
    if colour is None:
        raise LookupError("an attempt cannot be opened while no colour is free")
    attempt = Attempt(
        id=facts.next_attempt_id,
        revision=wanted.revision,
        digest=wanted.digest,
        version=wanted.version,
        colour=colour,
        image=wanted.image,
        started_at=facts.now,
        progress_since=facts.now,
    )
    return Step(
        f"attempt {attempt.id}: {name_of(wanted.version, wanted.digest)} starts as {colour}",
        {"attempt": attempt, "attempts": facts.status.attempts + 1, "verdicts": (), "last_failure": None},
    )


# --- before the flip ---------------------------------------------------------------------------------------------


def stay(facts: Facts) -> Step:
    return Step(_progress(facts), _remember(facts))


def _remember(facts: Facts) -> dict[str, Any]:
    """The attempt with this pass's look at the metrics, its verdicts, and the failure that may pass."""
    changes: dict[str, Any] = {}
    if facts.attempt is not None:
        changes["attempt"] = facts.attempt
    if facts.verdict is not None and facts.switched:
        changes["verdicts"] = facts.verdict.metrics
    if facts.failure is not None:
        changes["last_failure"] = failure_record(facts, *facts.failure)
    return changes


def _progress(facts: Facts) -> str:
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


def check(facts: Facts) -> Step:
    attempt = open_attempt_of(facts)
    return Step(f"{name_of(attempt.version, attempt.digest)} is ready and is checked", _remember(facts))


def progress(facts: Facts) -> Step:
    """Go on after waiting for something that is not the candidate's fault: the deadline counts anew."""
    attempt = open_attempt_of(facts)
    return Step(_progress(facts), {"attempt": attempt.with_(progress_since=facts.now, held_since=None)})


def close_gate(facts: Facts) -> Step:
    """A candidate pod was lost after its check: a new pod is checked anew.

    The deadline counts anew after a wait that was not the candidate's fault, and on after the checks themselves: pods
    that come and go must not put it off for ever.
    """
    waited = facts.status.phase in (Phase.AWAITING_PROMOTION, Phase.HELD)
    attempt = open_attempt_of(facts)
    attempt = attempt.with_(
        smoke_passed_at=None,
        evidence=(),
        limits=(),
        held_since=None,
        progress_since=facts.now if waited else attempt.progress_since,
    )
    return Step(f"the checks begin again: {_progress(facts)}", {"attempt": attempt})


def remember_smoke(facts: Facts) -> Step:
    limits = tuple(MetricLimit(metric=m, limit=v) for m, v in sorted(facts.observation.limits.items()))
    attempt = open_attempt_of(facts).with_(smoke_passed_at=facts.now, limits=limits)
    said = ", ".join(f"{one.metric} ≤ {one.limit:g}" for one in limits) or "no baselines: nothing will be judged"
    return Step(f"the smoke inference named the digest on every pod; {said}", {"attempt": attempt})


def check_pending(facts: Facts) -> Step:
    return Step(_checks(facts), _remember(facts), reason=Reason.CHECKING if facts.smoke_passed else None)


def _checks(facts: Facts) -> str:
    """What the checks wait for."""
    if facts.smoke_passed:
        return "the first counters of the candidate are read"
    if facts.every_ready_pod_passed:
        return "the smoke inference passed; the control port of a pod does not tell its limits, or the pods' differ"
    return next((a.message for a in facts.observation.smoke if not a.passed), "the smoke inference has not answered")


def hold_dark(facts: Facts) -> Step:
    look = facts.observation.look
    problem = look.problem if look and look.problem else "no pod's metrics could be read"
    return Step(f"the flip waits: {problem}", _remember(facts))


def await_person(facts: Facts) -> Step:
    attempt = open_attempt_of(facts)
    return Step(
        f"{name_of(attempt.version, attempt.digest)} passed its checks; set spec.rollout.promote to {attempt.id}",
        _remember(facts),
    )


def flip(facts: Facts) -> Step:
    attempt = open_attempt_of(facts)
    unhealthy = facts.active is not None and facts.active.ready == 0
    reason = Reason.ACTIVE_UNHEALTHY if unhealthy else Reason.PROMOTED
    record = FlipRecord(to=attempt.colour, attempt=attempt.id, reason=reason, at=facts.now)
    return Step(
        f"{name_of(attempt.version, attempt.digest)} passed its checks: the Service selects {attempt.colour}",
        {"attempt": attempt.with_(switched_at=facts.now, held_since=None, last_data_at=None)},
        flip=record,
        reason=reason,
    )


def begin_soak(facts: Facts) -> Step:
    """The flip was made by a pass that could not write so; the Service's own record has its time."""
    attempt = open_attempt_of(facts)
    record = facts.observation.flip
    at = record.at if record is not None else facts.now
    return Step(
        f"the Service selects {attempt.colour} since {at:%H:%M:%S}",
        {"attempt": attempt.with_(switched_at=at, held_since=None, last_data_at=None)},
    )


# --- a candidate's end -------------------------------------------------------------------------------------------


def drop(facts: Facts) -> Step:
    attempt = open_attempt_of(facts)
    reason = Reason.SPEC_REVERTED if facts.wanted_serves else Reason.SPEC_CHANGED
    return Step(
        f"attempt {attempt.id} of {name_of(attempt.version, attempt.digest)} ends: the spec asks for "
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
    cause = f"{_progress(facts)}; {_checks(facts)}" if all_ready(facts) else _progress(facts)
    return rejection(facts, Reason.PROGRESS_DEADLINE_EXCEEDED, f"not in service after {seconds} s: {cause}") | (
        {"last_failure": failure_record(facts, *facts.failure)} if facts.failure else {}
    )


def reject_smoke(facts: Facts) -> Step:
    said = next(a for a in facts.observation.smoke if a.wrong)
    return rejection(facts, Reason.SMOKE_FAILED, f"pod {said.pod}: {said.message}")


def reject_dark(facts: Facts) -> Step:
    return rejection(facts, Reason.METRICS_UNAVAILABLE, "no usable metrics for holdTimeoutSeconds before the flip")


def ended(facts: Facts, reason: Reason) -> Attempt:
    """The open attempt, decided; its evidence is kept to be read."""
    return open_attempt_of(facts).with_(ended_at=facts.now, outcome=reason.value)


class Rejecting(Step):
    """A step that can be given more changes."""

    __slots__ = ()

    def __or__(self, more: dict[str, Any]) -> "Rejecting":
        return Rejecting(self.sentence, self.changes | more, self.flip, self.reason)


def rejection(facts: Facts, reason: Reason, message: str, **numbers: Any) -> Rejecting:
    """End the attempt and remember that its digest may not be tried again by itself."""
    attempt = open_attempt_of(facts)
    entry = Rejection(
        digest=attempt.digest,
        revision=attempt.revision,
        version=attempt.version,
        attempt=attempt.id,
        reason=reason.value,
        message=message[:1024],
        at=facts.now,
        retry_token=facts.spec.rollout.retry_token,
        **numbers,
    )
    kept = tuple(r for r in facts.status.rejected if r.attempt != attempt.id)
    return Rejecting(
        f"{name_of(attempt.version, attempt.digest)} is rejected: {reason}: {message}",
        {"attempt": ended(facts, reason), "rejected": (*kept, entry)[-MAX_REJECTED:]},
        reason=reason,
    )


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


# --- after the flip ----------------------------------------------------------------------------------------------


def soak_on(facts: Facts) -> Step:
    verdict = facts.verdict
    said = verdict.message if verdict else f"{facts.observed_seconds:.0f} s observed"
    if facts.attempt is not None and facts.wanted.revision != facts.attempt.revision:
        waits = f"{name_of(facts.wanted.version, facts.wanted.digest)} waits for the verdict; {said}"
        return Step(waits, _remember(facts), reason=Reason.QUEUED)
    if facts.attempt is not None and facts.attempt.held_since is not None:
        return Step(said, _remember(facts), reason=Reason.NO_DATA)
    return Step(said, _remember(facts))


def hold(facts: Facts) -> Step:
    verdict = facts.verdict
    said = verdict.message if verdict else "no verdict"
    return Step(f"both colours stay: {said}", _remember(facts))


def hold_on(facts: Facts) -> Step:
    """Stay held. Between two looks the last look's reason and sentence stand."""
    if not facts.looked and facts.status.reason in _HOLDS:
        return Step(facts.status.message, _remember(facts), reason=Reason(facts.status.reason))
    cause = cause_of_hold(facts) or Reason.NO_DATA
    said = hold_bad(facts) if cause is Reason.NO_PREVIOUS else hold(facts)
    return Step(said.sentence, said.changes, reason=cause)


_HOLDS = (Reason.NO_PREVIOUS, Reason.INSUFFICIENT_DATA, Reason.NO_DATA)


def hold_bad(facts: Facts) -> Step:
    if facts.verdict is not None and facts.verdict.verdict.value == "Breach":
        said = facts.verdict.message
    else:
        said = _progress(facts)
    return Step(f"nothing healthy to go back to: {said}", _remember(facts))


def verify(facts: Facts) -> Step:
    return end_soak(facts, Reason.VERIFIED, verified=True)


def end_unjudged(facts: Facts) -> Step:
    return end_soak(facts, Reason.NO_BASELINES, verified=False)


def end_insufficient(facts: Facts) -> Step:
    return end_soak(facts, Reason.INSUFFICIENT_DATA, verified=False)


def end_without_data(facts: Facts) -> Step:
    return end_soak(facts, Reason.NO_DATA, verified=False)


def end_superseded(facts: Facts) -> Step:
    return end_soak(facts, Reason.SUPERSEDED, verified=False)


def end_soak(facts: Facts, reason: Reason, *, verified: bool) -> Step:
    """The attempt's revision keeps serving, verified or not; its previous colour is no longer kept warm."""
    attempt = open_attempt_of(facts)
    entry = HistoryEntry(
        revision=attempt.revision,
        digest=attempt.digest,
        version=attempt.version,
        image=attempt.image,
        verified=verified,
        reason=reason.value,
        at=facts.now,
    )
    others = tuple(h for h in facts.status.history if h.revision != attempt.revision)
    changes = _remember(facts) | {
        "attempt": ended(facts, reason),
        "history": (*others, entry)[-MAX_HISTORY:],
        "last_failure": None,
    }
    said = facts.verdict.message if facts.verdict else reason.meaning
    return Step(f"{name_of(attempt.version, attempt.digest)} serves; {said}", changes, reason=reason)
