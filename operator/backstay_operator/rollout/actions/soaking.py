"""What the rows of the transition table do after the flip, while the new active colour is watched."""

from backstay_contract.reasons import Reason
from backstay_contract.status import MAX_HISTORY, HistoryEntry

from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.guards.after_flip import cause_of_hold
from backstay_operator.rollout.step import Step
from backstay_operator.rollout.way_back import ways
from backstay_operator.rollout.way_back.ways import Way
from backstay_operator.rollout.wording import ended, name_of, open_attempt_of, remember


def soak_on(facts: Facts) -> Step:
    verdict = facts.verdict
    said = verdict.message if verdict else f"{facts.observed_seconds:.0f} s observed"
    if facts.paused:
        return Step(f"rollout.paused is true, so the soak does not end; {said}", remember(facts), reason=Reason.PAUSED)
    if facts.attempt is not None and facts.wanted.revision != facts.attempt.revision:
        waits = f"{name_of(facts.wanted.version, facts.wanted.digest)} waits for the verdict; {said}"
        return Step(waits, remember(facts), reason=Reason.QUEUED)
    if facts.attempt is not None and facts.attempt.held_since is not None:
        return Step(said, remember(facts), reason=Reason.NO_DATA)
    return Step(said, remember(facts))


def hold(facts: Facts) -> Step:
    verdict = facts.verdict
    said = verdict.message if verdict else "no verdict"
    return Step(f"both colours stay: {said}", remember(facts), reason=cause_of_hold(facts) or Reason.NO_DATA)


def hold_on(facts: Facts) -> Step:
    """Stay held. Between two looks the last look's reason and sentence stand."""
    if ways.course(facts) is not None:
        return hold_trouble(facts)
    if not facts.looked and facts.status.reason in _HOLDS:
        return Step(facts.status.message, remember(facts), reason=Reason(facts.status.reason))
    return hold(facts)


_HOLDS = (
    Reason.NO_PREVIOUS,
    Reason.INSUFFICIENT_DATA,
    Reason.NO_DATA,
    Reason.BREACH,
    Reason.SHARED_CAUSE,
    Reason.POD_OUTLIER,
)


def hold_trouble(facts: Facts) -> Step:
    """Something is wrong with the new colour, and both stay."""
    course = ways.course_of(facts)
    return Step(f"{WHY_STAY[course.way]}: {course.trouble.message}", remember(facts), reason=course.reason)


WHY_STAY = {
    Way.HOLD: "held, as rollback says",
    Way.SHARED: "another revision breaches it, too, so the revision is not the cause",
    Way.NOWHERE: "nothing healthy to go back to",
}


def end_overruled(facts: Facts) -> Step:
    return end_soak(facts, Reason.OVERRULED, verified=False)


def verify(facts: Facts) -> Step:
    return end_soak(facts, Reason.VERIFIED, verified=True)


def end_unjudged(facts: Facts) -> Step:
    return end_soak(facts, Reason.NO_BASELINES, verified=False)


def end_insufficient(facts: Facts) -> Step:
    return end_soak(facts, Reason.INSUFFICIENT_DATA, verified=False)


def end_without_data(facts: Facts) -> Step:
    return end_soak(facts, Reason.NO_DATA, verified=False)


def end_reverted(facts: Facts) -> Step:
    """What served before is asked for again. It is not kept warm, so an attempt of its own brings it back."""
    return end_soak(facts, Reason.PINNED if facts.pinned else Reason.SPEC_REVERTED, verified=False)


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
        recipe=attempt.recipe,
        limits=attempt.limits,
    )
    others = tuple(h for h in facts.status.history if h.revision != attempt.revision)
    changes = remember(facts) | {
        "attempt": ended(facts, reason),
        "history": (*others, entry)[-MAX_HISTORY:],
        "last_failure": None,
    }
    said = facts.verdict.message if facts.verdict else reason.meaning
    return Step(f"{name_of(attempt.version, attempt.digest)} serves; {said}", changes, reason=reason)
