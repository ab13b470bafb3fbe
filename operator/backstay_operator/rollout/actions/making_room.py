"""What the rows of the transition table do while there is no room for the candidate."""

from backstay_contract.reasons import Reason

from backstay_operator.rollout.actions.at_rest import open_attempt
from backstay_operator.rollout.actions.giving_up import rejection
from backstay_operator.rollout.actions.going_forward import close_gate, stay
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.room import shortage
from backstay_operator.rollout.step import Step
from backstay_operator.rollout.wording import how_far, name_of, open_attempt_of, remember


def open_to_wait(facts: Facts) -> Step:
    found, step = shortage(facts), open_attempt(facts)
    if found is None:
        raise LookupError("an attempt is opened to wait where there is room")
    wanted = facts.wanted
    said = f"attempt {facts.next_attempt_id}: {name_of(wanted.version, wanted.digest)} waits: {found.message}"
    return Step(said, step.changes, reason=found.reason)


def open_to_recreate(facts: Facts) -> Step:
    wanted = facts.wanted
    said = f"attempt {facts.next_attempt_id}: {_active(facts)} goes down to make room for "
    return Step(said + name_of(wanted.version, wanted.digest), open_attempt(facts).changes)


def wait_for_nodes(facts: Facts) -> Step:
    """No node takes the candidate: by reckoning before it is made, in the scheduler's own words afterwards."""
    found = shortage(facts)
    if found is None:
        return stay(facts)
    attempt = open_attempt_of(facts)
    said = f"{name_of(attempt.version, attempt.digest)} waits: {found.message}"
    return Step(said, remember(facts), reason=found.reason)


def wait_for_active(facts: Facts) -> Step:
    """From when it goes down the deadline counts, however long there was no room before."""
    attempt, active = open_attempt_of(facts), facts.active
    left = ", ".join(pod.name for pod in active.pods) if active is not None else ""
    said = f"{_active(facts)} goes down to make room for {name_of(attempt.version, attempt.digest)}"
    if active is not None and active.replicas > 0:
        attempt = attempt.with_(progress_since=facts.now)
    return Step(f"{said}; still there: {left}" if left else said, remember(facts) | {"attempt": attempt})


def step_back(facts: Facts) -> Step:
    """Paused while the active colour is down for it: nothing would serve until somebody resumes."""
    attempt = open_attempt_of(facts)
    said = f"rollout.paused is true: {_active(facts)} serves, and {name_of(attempt.version, attempt.digest)} waits"
    return Step(said, close_gate(facts).changes)


def reject(facts: Facts) -> Step:
    """The active colour went down, and there is no room all the same: it must come up again, and not go down anew."""
    seconds = facts.spec.rollout.progress_deadline_seconds
    return rejection(facts, Reason.INSUFFICIENT_CAPACITY, f"no room within {seconds} s: {how_far(facts)}")


def _active(facts: Facts) -> str:
    active = facts.active
    return name_of(active.version, active.digest) if active is not None and active.digest else "the active colour"
