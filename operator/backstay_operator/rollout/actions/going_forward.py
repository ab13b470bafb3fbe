"""What the rows of the transition table do with a candidate until the flip, the flip included."""

from typing import Any

from backstay_contract.mode import Mode
from backstay_contract.reasons import Reason
from backstay_contract.status import Attempt, Phase

from backstay_operator.rollout import evaluating, judging, memory
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.observation import FlipRecord
from backstay_operator.rollout.plan import attempt_number
from backstay_operator.rollout.step import Step
from backstay_operator.rollout.way_back import leaving
from backstay_operator.rollout.wording import how_far, name_of, open_attempt_of, remember, what_checks_wait_for


def stay(facts: Facts) -> Step:
    return Step(how_far(facts), remember(facts))


def check(facts: Facts) -> Step:
    attempt = open_attempt_of(facts)
    return Step(f"{name_of(attempt.version, attempt.digest)} is ready and is checked", remember(facts))


def progress(facts: Facts) -> Step:
    """Go on after waiting for something that is not the candidate's fault: the deadline counts anew."""
    attempt = open_attempt_of(facts)
    return Step(how_far(facts), {"attempt": attempt.with_(progress_since=facts.now, held_since=None)})


def close_gate(facts: Facts) -> Step:
    """A candidate pod was lost after its check: a new pod is checked anew.

    The deadline counts anew after a wait that was not the candidate's fault, and on after the checks themselves: pods
    that come and go must not put it off for ever.
    """
    waited = facts.status.phase in (Phase.AWAITING_PROMOTION, Phase.HELD)
    attempt = open_attempt_of(facts)
    attempt = attempt.with_(
        smoke_passed_at=None,
        evaluation=None,
        evidence=(),
        limits=(),
        held_since=None,
        progress_since=facts.now if waited else attempt.progress_since,
    )
    return Step(f"the checks begin again: {how_far(facts)}", {"attempt": attempt})


def remember_smoke(facts: Facts) -> Step:
    given = judging.metric_limits(facts.observation.limits)
    limits = judging.request_limits(facts.observation.limits)  # perplexity's comes with the evaluation
    attempt = open_attempt_of(facts).with_(smoke_passed_at=facts.now, limits=limits)
    said = ", ".join(f"{one.metric} ≤ {one.limit:g}" for one in given) or "no baselines: nothing will be judged"
    return Step(f"the smoke inference named the digest on every pod; {said}", {"attempt": attempt})


def remember_evaluation(facts: Facts) -> Step:
    verdict = evaluating.found(facts)
    if verdict is None:
        raise LookupError("remember_evaluation is called without a verdict")
    attempt = open_attempt_of(facts)
    limits = evaluating.limits_with(attempt.limits, verdict)
    return Step(verdict.message, {"attempt": attempt.with_(evaluation=verdict, limits=limits)})


def check_pending(facts: Facts) -> Step:
    return Step(what_checks_wait_for(facts), remember(facts), reason=Reason.CHECKING if facts.smoke_passed else None)


def hold_dark(facts: Facts) -> Step:
    look = facts.observation.look
    problem = look.problem if look and look.problem else "no pod's metrics could be read"
    return Step(f"the flip waits: {problem}", remember(facts))


def await_person(facts: Facts) -> Step:
    attempt = open_attempt_of(facts)
    return Step(
        f"{name_of(attempt.version, attempt.digest)} passed its checks; set spec.rollout.promote to {attempt.id}",
        remember(facts),
    )


def flip(facts: Facts) -> Step:
    attempt = open_attempt_of(facts)
    unhealthy = facts.active is not None and facts.active.ready == 0 and not facts.recreates
    reason = Reason.ACTIVE_UNHEALTHY if unhealthy else Reason.PROMOTED
    if facts.returns:
        reason = Reason.RETURNING
    record = FlipRecord(to=attempt.colour, attempt=attempt.id, reason=reason, at=facts.now)
    changes = {"attempt": attempt.with_(switched_at=facts.now, held_since=None, last_data_at=None)} | _mode_there(facts)
    said = f"{name_of(attempt.version, attempt.digest)} passed its checks: the Service selects {attempt.colour}"
    return Step(said, changes, flip=record, reason=reason)


def _mode_there(facts: Facts) -> dict[str, Any]:
    """A revision that is gone back to may serve with cut answers at first."""
    returning = facts.status.returning
    if not facts.returns or returning is None or returning.mode != Mode.DEGRADED.value:
        return {}
    return {"degraded": leaving.cut(facts, returning.to, returning.reason, returning.message)}


def soak_anew(facts: Facts) -> Step:
    """The status was lost, and what serves may have been in its soak: an attempt of the same name goes on from here."""
    active, wanted = facts.active, facts.wanted
    if active is None:
        raise LookupError("nothing serves that could be soaked")
    attempt = Attempt(
        id=active.attempt,
        revision=active.revision,
        digest=active.digest,
        version=active.version,
        colour=active.colour,
        image=active.image,
        recipe=wanted.recipe if wanted.revision == active.revision else None,
        started_at=facts.now,
        smoke_passed_at=facts.now,
        switched_at=facts.now,
    )
    numbers = [attempt_number(state.attempt) for state in facts.observation.colours.values()]
    said = f"{name_of(active.version, active.digest)} serves, and its status was lost: it is soaked anew"
    return Step(said, {"attempt": attempt, "attempts": max(facts.status.attempts, *numbers)})


def begin_soak(facts: Facts) -> Step:
    """The flip was made by a pass that could not write so; the Service's own record has its time and reason."""
    attempt = open_attempt_of(facts)
    record = facts.observation.flip
    at = record.at if record is not None else facts.now
    return Step(
        f"the Service selects {attempt.colour} since {at:%H:%M:%S}",
        {"attempt": attempt.with_(switched_at=at, held_since=None, last_data_at=None)} | _mode_there(facts),
        reason=memory.reason(record.reason, Reason.PROMOTED) if record is not None else None,
    )
