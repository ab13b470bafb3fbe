"""Degraded mode: answers are cut until the judge passes the revision. It is level-triggered: the status says which
revision, and each pass tells each of its pods."""

from typing import Any

from backstay_contract.reasons import Reason

from backstay_operator.rollout.actions.soaking import end_soak
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.step import Step
from backstay_operator.rollout.way_back import leaving
from backstay_operator.rollout.way_back.ways import course_of
from backstay_operator.rollout.wording import name_of, open_attempt_of, remember


def stay(facts: Facts) -> Step:
    """After the soak: the revision serves on with cut answers, and is verified no more."""
    trouble, active = course_of(facts).trouble, facts.active
    if active is None:
        raise LookupError("nothing serves that could be degraded")
    changes = {
        "degraded": leaving.cut(facts, active.revision, trouble.reason, trouble.message),
        "history": leaving.doubted(facts, active.revision, Reason.DEGRADED),
    }
    return Step(f"{name_of(active.version, active.digest)} serves with cut answers: {trouble.message}", changes)


def stay_in_soak(facts: Facts) -> Step:
    """The attempt ends unverified; the watch goes on."""
    trouble, attempt = course_of(facts).trouble, open_attempt_of(facts)
    step = end_soak(facts, Reason.DEGRADED, verified=False)
    said = f"{name_of(attempt.version, attempt.digest)} serves with cut answers: {trouble.message}"
    cut = leaving.cut(facts, attempt.revision, trouble.reason, trouble.message)
    return Step(said, step.changes | {"degraded": cut}, reason=Reason.DEGRADED)


def recover(facts: Facts) -> Step:
    """After the soak the judge passed it: whole answers again. That makes nothing verified."""
    entry, active = facts.entry, facts.active
    changes: dict[str, Any] = {"degraded": None}
    if entry is not None and entry.reason == Reason.DEGRADED:
        changes["history"] = leaving.doubted(facts, entry.revision, Reason.RECOVERED)
    name = name_of(active.version, active.digest) if active is not None and active.digest else "the active colour"
    return Step(f"{name} serves with whole answers again: the judge passed it", changes)


def recover_in_soak(facts: Facts) -> Step:
    """In the soak of a revision that came back with cut answers: it has yet to show that it can do without."""
    attempt = open_attempt_of(facts).with_(evidence=(), observed_seconds=0.0)
    said = f"{name_of(attempt.version, attempt.digest)} passed with cut answers; the soak begins anew with whole ones"
    return Step(said, remember(facts) | {"attempt": attempt, "degraded": None})
