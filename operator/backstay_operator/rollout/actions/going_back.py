"""The way back: no special path, but a flip whose target is the colour that served before.

It depends on the old side's health only: never on the new one's, nor on the metrics system being up.
"""

from typing import Any

from backstay_contract.reasons import Reason

from backstay_operator.rollout import memory
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.observation import ColourState, FlipRecord
from backstay_operator.rollout.step import Step
from backstay_operator.rollout.way_back import leaving
from backstay_operator.rollout.way_back.leaving import Cause
from backstay_operator.rollout.way_back.tree import Trouble
from backstay_operator.rollout.way_back.ways import course_of
from backstay_operator.rollout.wording import ABORTED, ended, failure_record, name_of, open_attempt_of


def go_back_trouble(facts: Facts) -> Step:
    """The new colour is in trouble: its digest is rejected, with the numbers."""
    course, attempt = course_of(facts), open_attempt_of(facts)
    record = leaving.record_of(facts, course, attempt.colour.other, attempt.id)
    step = _recorded(facts, record, Cause.of_course(course))
    return step | last_failure(facts, course.trouble)


def last_failure(facts: Facts, trouble: Trouble) -> dict[str, Any]:
    """What a dead pod said last, before it goes."""
    if facts.failure is None or not trouble.hard:
        return {}
    return {"last_failure": failure_record(facts, *facts.failure)}


def go_back_at_rest(facts: Facts) -> Step:
    """The revision that serves is in trouble after its soak, and the colour that served before it is still up."""
    course, active = course_of(facts), _active(facts)
    record = leaving.record_of(facts, course, active.colour.other, active.attempt)
    cause = Cause.of_course(course)
    changes = leaving.by_flip(facts, record, active, cause)
    return Step(f"back to {record.to}: {cause.message}", changes, flip=record, reason=cause.reason)


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


def _go_back(facts: Facts, reason: Reason, message: str, *, rejects: bool) -> Step:
    attempt = open_attempt_of(facts)
    record = FlipRecord(
        to=attempt.colour.other,
        attempt=attempt.id,
        reason=reason,
        at=facts.now,
        message=message[: leaving.MAX_RECORD],
        rejects=rejects,
    )
    return _recorded(facts, record, Cause(reason, message))


def _recorded(facts: Facts, record: FlipRecord, cause: Cause) -> Step:
    """The step of that flip, in the pass that makes it and in one after a crash."""
    attempt = open_attempt_of(facts)
    changes: dict[str, Any] = {"attempt": ended(facts, cause.reason)}
    if record.rejects:
        changes |= leaving.by_flip(facts, record, attempt, cause)
    if facts.verdict is not None and facts.verdict.metrics:
        changes["verdicts"] = facts.verdict.metrics
    flip = record if record is not facts.observation.flip else None
    return Step(f"back to {record.to}: {cause.message}", changes, flip=flip, reason=cause.reason)


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
    return _recorded(facts, record, Cause.of_record(record, memory.reason(record.reason, Reason.ROLLED_BACK)))


def record_rejection(facts: Facts) -> Step:
    """The same at rest, or where the status was lost since: the losing colour still says what it ran."""
    record, left = facts.observation.flip, facts.left_unrecorded
    if record is None or left is None:
        raise LookupError("record_rejection is called where no rejection is missing")
    cause = Cause.of_record(record, memory.reason(record.reason, Reason.ROLLED_BACK))
    return Step(
        f"back to {record.to}: {record.message}", leaving.by_flip(facts, record, left, cause), reason=cause.reason
    )


def _active(facts: Facts) -> ColourState:
    if facts.active is None:
        raise LookupError("nothing serves: the transition table has a row in the wrong stage")
    return facts.active


def finish(facts: Facts) -> Step:
    """The losing colour gets no new request any more."""
    active = facts.active
    name = name_of(active.version, active.digest) if active and active.digest else "nothing"
    return Step(f"{name} serves again", reason=_outcome(facts))


def wait(facts: Facts) -> Step:
    """The EndpointSlices still show the losing colour."""
    return Step(f"new requests move to {facts.active_colour}", reason=_outcome(facts))


def _outcome(facts: Facts) -> Reason:
    """Why the last flip was made."""
    flip, attempt = facts.observation.flip, facts.status.attempt
    said = flip.reason if flip is not None else (attempt.outcome if attempt else None)
    return memory.reason(said or "", Reason.ROLLED_BACK)
