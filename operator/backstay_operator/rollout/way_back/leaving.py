"""What is remembered when the revision that serves is left: why, and where the way back leads."""

from dataclasses import dataclass
from typing import Any

from backstay_contract.metric import MetricName
from backstay_contract.mode import Mode
from backstay_contract.reasons import Reason
from backstay_contract.status import MAX_REJECTED, Attempt, Colour, Degraded, HistoryEntry, Rejection, Returning

from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.observation import ColourState, FlipRecord
from backstay_operator.rollout.way_back.ways import Course

MAX_MESSAGE = 1024
MAX_RECORD = 512
"""Characters of a message on the Service, which is written with each flip."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a revision is left, with the numbers where a metric says so."""

    reason: Reason
    message: str
    metric: MetricName | None = None
    observed: float | None = None
    limit: float | None = None

    @classmethod
    def of_course(cls, course: Course) -> "Cause":
        trouble = course.trouble
        return cls(trouble.reason, trouble.message, trouble.metric, trouble.observed, trouble.limit)

    @classmethod
    def of_record(cls, record: FlipRecord, reason: Reason) -> "Cause":
        return cls(reason, record.message, record.metric, record.observed, record.limit)


def rejected(facts: Facts, left: Attempt | ColourState, cause: Cause) -> tuple[Rejection, ...]:
    """The rejections with this one, which takes the place of an earlier one of the same attempt."""
    attempt = left.id if isinstance(left, Attempt) else left.attempt
    entry = Rejection(
        digest=left.digest,
        revision=left.revision,
        version=left.version,
        attempt=attempt,
        reason=cause.reason.value,
        message=cause.message[:MAX_MESSAGE],
        at=facts.now,
        retry_token=facts.spec.rollout.retry_token,
        metric=cause.metric,
        observed=cause.observed,
        limit=cause.limit,
    )
    return (*(r for r in facts.status.rejected if r.attempt != attempt), entry)[-MAX_REJECTED:]


def doubted(facts: Facts, revision: str, reason: Reason) -> tuple[HistoryEntry, ...]:
    """The history, in which that revision is verified no more."""
    return tuple(
        entry.with_(verified=False, reason=reason.value) if entry.revision == revision else entry
        for entry in facts.status.history
    )


def returning(facts: Facts, to: str, cause: Cause, *, degraded: bool) -> Returning:
    """The slow way back to that revision."""
    return Returning(
        to=to,
        asked=facts.aim.revision,
        reason=cause.reason.value,
        message=cause.message[:MAX_MESSAGE],
        mode=Mode.DEGRADED.value if degraded else Mode.NORMAL.value,
        since=facts.now,
    )


def cut(facts: Facts, revision: str, reason: str, message: str) -> Degraded:
    """The mode of a revision whose answers are cut from now on."""
    return Degraded(revision=revision, reason=reason, message=message[:MAX_MESSAGE], since=facts.now)


def record_of(facts: Facts, course: Course, to: Colour, attempt: str) -> FlipRecord:
    """The flip that leaves the active colour, with all that a pass needs to go on if this one is killed after it."""
    cause = Cause.of_course(course)
    return FlipRecord(
        to=to,
        attempt=attempt,
        reason=cause.reason,
        at=facts.now,
        message=cause.message[:MAX_RECORD],
        rejects=True,
        metric=cause.metric,
        observed=cause.observed,
        limit=cause.limit,
        degraded=course.degraded,
        then=course.to,
    )


def by_flip(facts: Facts, record: FlipRecord, left: Attempt | ColourState, cause: Cause) -> dict[str, Any]:
    """The changes of a flip back, as its record tells them: the same in the pass that flips and after a crash."""
    changes: dict[str, Any] = {"history": doubted(facts, left.revision, cause.reason)}
    if record.rejects:
        changes["rejected"] = rejected(facts, left, cause)
    if record.then:
        changes["returning"] = returning(facts, record.then, cause, degraded=record.degraded)
    elif record.degraded:
        to = facts.observation.colours[record.to].revision
        changes["degraded"] = cut(facts, to, cause.reason, cause.message)
    return changes


def by_slow_way(facts: Facts, course: Course, left: Attempt | ColourState) -> dict[str, Any]:
    """The changes when a slow way back begins: what serves is rejected, and serves until a better one is up."""
    cause = Cause.of_course(course)
    changes: dict[str, Any] = {"returning": returning(facts, course.to, cause, degraded=course.degraded)}
    if cause.reason is Reason.REVISION_REJECTED:
        return changes  # it was rejected before: the first reason and its numbers stay
    changes["rejected"] = rejected(facts, left, cause)
    changes["history"] = doubted(facts, left.revision, cause.reason)
    return changes
