"""The way back: no special path, but a flip whose target is the colour that served before.

It depends on the old side's health only: never on the new one's, nor on the metrics system being up.
"""

from typing import Any

from backstay_contract.evidence import MetricVerdict, VerdictKind
from backstay_contract.reasons import Reason

from backstay_operator.rollout import memory
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.giving_up import rejection
from backstay_operator.rollout.observation import FlipRecord
from backstay_operator.rollout.step import Step
from backstay_operator.rollout.wording import ABORTED, ended, failure_record, name_of, open_attempt_of


def go_back_breach(facts: Facts) -> Step:
    """A metric breached: the digest is rejected with the numbers."""
    worst = _worst(facts)
    if worst is None:
        return _go_back(facts, Reason.BREACH, "a metric breached its limit", rejects=True)
    return _go_back(facts, Reason.BREACH, worst.message, rejects=True, worst=worst)


def go_back_died(facts: Facts) -> Step:
    """The new colour's pods died: no statistics are needed."""
    if facts.failure is None:
        return _go_back(facts, Reason.PODS_NOT_READY, "no pod of the new colour is ready", rejects=True)
    pod, failure = facts.failure
    step = _go_back(facts, failure.reason, f"pod {pod.name}: {failure.message}", rejects=True)
    return step | {"last_failure": failure_record(facts, pod, failure)}


def go_back_aborted(facts: Facts) -> Step:
    """A person ended the attempt: its digest is not tried again by itself."""
    return _go_back(facts, Reason.ABORTED, ABORTED, rejects=True)


def go_back_reverted(facts: Facts) -> Step:
    """A person put the spec back, or named the previous revision: nothing is rejected."""
    if facts.pinned:
        return _go_back(facts, Reason.PINNED, "rollout.rollbackTo names the previous revision", rejects=False)
    return _go_back(facts, Reason.SPEC_REVERTED, "the spec was put back", rejects=False)


def go_back_superseded(facts: Facts) -> Step:
    """A third revision is wanted: it takes the second one's colour, not the only one that is known to be good."""
    if facts.pinned:
        return _go_back(facts, Reason.PINNED, "rollout.rollbackTo names a third revision", rejects=False)
    return _go_back(facts, Reason.SUPERSEDED, "a third revision is asked for", rejects=False)


def go_back_insufficient(facts: Facts) -> Step:
    said = facts.verdict.message if facts.verdict else "the soak ended without a verdict"
    return _go_back(facts, Reason.INSUFFICIENT_DATA, said, rejects=True)


def go_back_dark(facts: Facts) -> Step:
    return _go_back(facts, Reason.NO_DATA, "no usable metrics for holdTimeoutSeconds", rejects=True)


def _worst(facts: Facts) -> MetricVerdict | None:
    """The breached metric with the strongest evidence."""
    metrics = facts.verdict.metrics if facts.verdict is not None else ()
    breached = [m for m in metrics if m.verdict is VerdictKind.BREACH]
    return max(breached, key=lambda m: m.e_value or 0.0, default=None)


def _go_back(facts: Facts, reason: Reason, message: str, *, rejects: bool, worst: MetricVerdict | None = None) -> Step:
    attempt = open_attempt_of(facts)
    record = FlipRecord(
        to=attempt.colour.other,
        attempt=attempt.id,
        reason=reason,
        at=facts.now,
        message=message[:512],
        rejects=rejects,
        metric=worst.metric if worst else None,
        observed=worst.estimate if worst else None,
        limit=worst.limit if worst else None,
    )
    return Step(
        f"back to {attempt.colour.other}: {message}", _changes(facts, record, reason), flip=record, reason=reason
    )


def _changes(facts: Facts, record: FlipRecord, reason: Reason) -> dict[str, Any]:
    verdicts: dict[str, Any] = (
        {"verdicts": facts.verdict.metrics} if facts.verdict is not None and facts.verdict.metrics else {}
    )
    if not record.rejects:
        return {"attempt": ended(facts, reason)} | verdicts
    numbers = {"metric": record.metric, "observed": record.observed, "limit": record.limit}
    return rejection(facts, reason, record.message, **numbers).changes | verdicts


def record_way_back(facts: Facts) -> Step:
    """The flip back was made by a pass that could not write so; the Service's own record says why."""
    attempt, record = open_attempt_of(facts), facts.observation.flip
    if record is None or record.attempt != attempt.id or record.to is attempt.colour:
        # Not our flip: somebody's hand or a lost record. Nothing is known against the digest.
        return Step(
            f"attempt {attempt.id} ends: the Service no longer selects {attempt.colour}",
            {"attempt": ended(facts, Reason.ROLLED_BACK)},
            reason=Reason.ROLLED_BACK,
        )
    reason = memory.reason(record.reason, Reason.ROLLED_BACK)
    return Step(f"back to {record.to}: {record.message}", _changes(facts, record, reason), reason=reason)


def finish(facts: Facts) -> Step:
    """The losing colour gets no new request any more."""
    active = facts.active
    name = name_of(active.version, active.digest) if active and active.digest else "nothing"
    return Step(f"{name} serves again", reason=_outcome(facts))


def wait(facts: Facts) -> Step:
    """The EndpointSlices still show the losing colour."""
    return Step(f"new requests move to {facts.active_colour}", reason=_outcome(facts))


def _outcome(facts: Facts) -> Reason:
    attempt = facts.status.attempt
    return memory.reason((attempt.outcome if attempt else None) or "", Reason.ROLLED_BACK)
