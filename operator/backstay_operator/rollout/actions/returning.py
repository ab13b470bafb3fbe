"""The slow way back: the revision to go back to is not kept warm, so it is brought up from its recipe.

That is done by an attempt like any other, while what serves serves on.
"""

from backstay_contract.status import Attempt

from backstay_operator.rollout import history
from backstay_operator.rollout.actions.going_back import last_failure
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.observation import ColourState
from backstay_operator.rollout.step import Step
from backstay_operator.rollout.way_back import leaving
from backstay_operator.rollout.way_back.ways import Course, course_of
from backstay_operator.rollout.wording import ended, name_of, open_attempt_of, remember


def begin(facts: Facts) -> Step:
    """After the soak."""
    if facts.active is None:
        raise LookupError("a slow way back begins where nothing serves")
    return _begin(facts, course_of(facts), facts.active)


def begin_in_soak(facts: Facts) -> Step:
    """In the soak, where the previous colour is gone: the attempt ends, its colour serves on."""
    course, attempt = course_of(facts), open_attempt_of(facts)
    step = _begin(facts, course, attempt) | last_failure(facts, course.trouble)
    return step | {"attempt": ended(facts, course.trouble.reason), "verdicts": remember(facts).get("verdicts", ())}


def _begin(facts: Facts, course: Course, left: Attempt | ColourState) -> Step:
    entry = history.entry(facts.status, course.to)
    target = name_of(entry.version, entry.digest) if entry is not None else course.to
    said = f"{name_of(left.version, left.digest)}: {course.trouble.message}; {target} is brought up again"
    return Step(said, leaving.by_slow_way(facts, course, left))
