"""What the rows of the transition table do while no attempt is open."""

from typing import Any

from backstay_contract.reasons import Reason
from backstay_contract.status import Attempt, Colour, Phase, Rejection

from backstay_operator.rollout import memory
from backstay_operator.rollout.actions.soaking import WHY_STAY
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.step import Step
from backstay_operator.rollout.way_back import leaving, ways
from backstay_operator.rollout.way_back.ways import Way
from backstay_operator.rollout.wording import name_of


def settle(facts: Facts) -> Step:
    """What is asked for serves: the reason is how it came into service."""
    status, active = facts.status, facts.active
    last = next((h for h in reversed(status.history) if active and h.revision == active.revision), None)
    reason = memory.reason(last.reason, Reason.SERVING) if last else Reason.SERVING
    if status.reason == Reason.SPEC_REVERTED:
        reason = Reason.SPEC_REVERTED
    if facts.vanished is not None:
        said = f"{name_of(facts.wanted.version, facts.wanted.digest)}: its Deployment was deleted and is built again"
        return Step(said, reason=reason)
    name = name_of(active.version, active.digest) if active and active.digest else "nothing"
    if facts.pinned:
        return Step(f"{name} serves because rollout.rollbackTo names it", reason=Reason.PINNED)
    return Step(f"{name} serves", reason=Reason.PAUSED if facts.paused else reason)


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


def hold(facts: Facts) -> Step:
    """Something is wrong with what serves, and it stays. The sentence of a hold stands until its reason changes: its
    numbers grow with each look, and at rest nothing is written."""
    course = ways.course_of(facts)
    if facts.status.phase is Phase.HELD and facts.status.reason == course.reason:
        return Step(facts.status.message, reason=course.reason)
    changes: dict[str, Any] = {}
    if facts.active is not None and course.way is not Way.SHARED:
        changes["history"] = leaving.doubted(facts, facts.active.revision, course.trouble.reason)
    return Step(f"{WHY_STAY[course.way]}: {course.trouble.message}", changes, reason=course.reason)


def hold_on(facts: Facts) -> Step:
    return Step(facts.status.message, reason=memory.reason(facts.status.reason, Reason.BREACH))


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
        recipe=wanted.recipe,
        replicas=facts.spec.replicas,
        started_at=facts.now,
        progress_since=facts.now,
    )
    return Step(
        f"attempt {attempt.id}: {name_of(wanted.version, wanted.digest)} starts as {colour}",
        {"attempt": attempt, "attempts": facts.status.attempts + 1, "verdicts": (), "last_failure": None},
    )
