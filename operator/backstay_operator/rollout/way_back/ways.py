"""What a trouble leads to in the present situation: the rules say what is wanted, the colours and the history what is
possible."""

from dataclasses import dataclass, replace
from enum import StrEnum

from backstay_contract.reasons import Reason
from backstay_contract.rollback import Action, AfterVerified, ModeThere, Target

from backstay_operator.rollout import history, watching
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.way_back import tree
from backstay_operator.rollout.way_back.tree import Answer, Trouble
from backstay_operator.rollout.way_back.troubles import Troubles, present


class Way(StrEnum):
    """What is done about a trouble."""

    FLIP = "flip"
    """Back at once, to the colour that is kept warm."""
    RETURN = "return"
    """The slow way back: bring a revision of the history up, then flip to it."""
    DEGRADE = "degrade"
    """Stay, with cut answers."""
    HOLD = "hold"
    """Stay as it is: a rule says so."""
    SHARED = "shared"
    """Stay: the cause is not the revision."""
    NOWHERE = "nowhere"
    """Stay: there is nothing better."""


@dataclass(frozen=True, slots=True)
class Course:
    """A way, and the trouble that it answers to."""

    way: Way
    trouble: Trouble
    degraded: bool = False
    """Whether the revision gone back to serves with cut answers at first."""
    to: str = ""
    """The revision to bring up: at once, or after the flip."""

    @property
    def reason(self) -> Reason:
        """Why a hold begins."""
        return {Way.SHARED: Reason.SHARED_CAUSE, Way.NOWHERE: Reason.NO_PREVIOUS}.get(self.way, self.trouble.reason)


def course(facts: Facts) -> Course | None:
    """What is to be done about the troubles of this pass; None where there are none, or nothing may be done."""
    if facts.attempt is None and (facts.wanted.revision != facts.aim.revision or facts.something_new_is_asked):
        return None  # a way back, or a fix, is on its way
    found = present(facts)
    answer = _asked_for(facts, found)
    if answer is not None:
        return _possible(facts, answer)
    return Course(Way.SHARED, found.shared[0]) if found.shared else None


def course_of(facts: Facts) -> Course:
    """The course; the table only calls actions that need one where there is one."""
    found = course(facts)
    if found is None:
        raise LookupError("there is no trouble: the transition table has a row in the wrong place")
    return found


def _asked_for(facts: Facts, found: Troubles) -> Answer | None:
    """What the rules want. At rest, rollback.afterVerified comes before them."""
    answer = tree.answer(facts.spec.rollback.rules, found.own)
    if answer is None or facts.attempt is not None:
        return answer
    if answer.trouble.reason is Reason.REVISION_REJECTED:
        return Answer(answer.trouble, to=Target.LAST_VERIFIED)
    after = facts.spec.rollback.after_verified
    if after is AfterVerified.HOLD:
        return replace(answer, do=Action.HOLD)
    return replace(answer, do=Action.DEGRADE) if after is AfterVerified.DEGRADE else answer


def _possible(facts: Facts, answer: Answer) -> Course:
    stays = not answer.trouble.hard
    if stays and facts.returns:
        return _in_return(facts, answer)
    if answer.do is Action.HOLD:
        return Course(Way.HOLD, answer.trouble)
    if answer.do is Action.DEGRADE and may_degrade(facts):
        return Course(Way.DEGRADE, answer.trouble)
    return _back(facts, answer)


def _in_return(facts: Facts, answer: Answer) -> Course:
    """A slow way back that breaches, too, leads no further back: that would burn one good revision after another."""
    wants = answer.do is Action.DEGRADE or answer.mode is ModeThere.DEGRADED
    if wants and answer.do is not Action.HOLD and may_degrade(facts):
        return Course(Way.DEGRADE, answer.trouble)
    return Course(Way.HOLD if answer.do is Action.HOLD else Way.NOWHERE, answer.trouble)


def may_degrade(facts: Facts) -> bool:
    """Not twice in a row: a revision that was degraded once and breaches again, in that mode or after it, is left."""
    entry = facts.entry
    before = entry is not None and entry.reason in (Reason.DEGRADED, Reason.RECOVERED)
    return not facts.degraded and not before


def _back(facts: Facts, answer: Answer) -> Course:
    leaving = facts.active.revision if facts.active is not None else ""
    entry = history.target(facts.status, answer.to, facts.spec.rollout.retry_token, leaving)
    to = entry.revision if entry is not None else ""
    if may_flip_back(facts, answer.trouble):
        warm = facts.other.revision if facts.other is not None else ""
        further = answer.to is Target.LAST_VERIFIED and to != warm and _nothing_better_is_asked(facts)
        goal = to if further else ""
        return Course(Way.FLIP, answer.trouble, _degraded_there(facts, answer, goal or warm), goal)
    comes_back = facts.previous is not None and to in ("", facts.previous.revision)
    if to and not comes_back and _nothing_better_is_asked(facts):
        return Course(Way.RETURN, answer.trouble, _degraded_there(facts, answer, to), to)
    return Course(Way.NOWHERE, answer.trouble)


def _degraded_there(facts: Facts, answer: Answer, revision: str) -> bool:
    """Only where the judge can pass the revision, since nothing else ends it."""
    return answer.mode is ModeThere.DEGRADED and bool(watching.recorded_limits(facts.status, revision))


def _nothing_better_is_asked(facts: Facts) -> bool:
    """People ask for what is left, or for what was rejected before: a slow way back does not stand in a fix's way."""
    refused = history.refused(facts.status, facts.aim.digest, facts.spec.rollout.retry_token)
    asks_for_left = facts.active is not None and facts.aim.digest == facts.active.digest
    return refused or asks_for_left or facts.spec.rollout.paused


def may_flip_back(facts: Facts, trouble: Trouble) -> bool:
    """The other colour can take over. When nothing else is left, also one that was rejected, or is short of pods."""
    if facts.previous_ready:
        known = facts.attempt is not None or _served_well(facts)
        return known
    dead = trouble.hard and facts.active is not None and facts.active.ready == 0
    return dead and facts.other is not None and facts.other.ready > 0


def _served_well(facts: Facts) -> bool:
    """At rest the other colour may be a candidate that was only tried: it must be one that served before."""
    previous = facts.previous
    return previous is not None and any(h.revision == previous.revision for h in facts.status.history)
