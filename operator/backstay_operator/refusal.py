"""What the status says while something is in the way that only a person can change. Pure."""

from dataclasses import replace
from datetime import datetime

from backstay_contract.reasons import Reason
from backstay_contract.status import Condition, ModelDeploymentStatus, Phase

from backstay_operator import conditions
from backstay_operator.rollout import memory
from backstay_operator.rollout.decision import Decision, Event

TELLS_MORE = (Phase.HELD, Phase.ROLLING_BACK)
"""Phases whose own reason is what people need to know first."""


def status(
    now_is: ModelDeploymentStatus,
    before: tuple[Condition, ...],
    condition: str,
    event: Event,
    generation: int,
    now: datetime,
) -> ModelDeploymentStatus:
    """The status with that condition False; it vanishes with the next pass that goes through."""
    kept = [
        conditions.Wanted(one.type, one.status, memory.reason(one.reason, Reason.AT_REST), one.message)
        for one in now_is.conditions
        if one.type not in (condition, "Reconciling", "Stalled")
    ]
    wanted = [
        *kept,
        conditions.Wanted(condition, "False", event.reason, event.message),
        conditions.Wanted("Stalled", "True", event.reason, event.message),
    ]
    return now_is.with_(
        observed_generation=generation,
        reason=event.reason.value,
        message=event.message,
        conditions=conditions.build(before, wanted, generation, now),
    )


def in_spite_of(decision: Decision, before: ModelDeploymentStatus, event: Event, now: datetime) -> Decision:
    """A decision that was made by a stand-in for an invalid spec. Only its steps are told: its reasons are not what the
    status says."""
    made = decision.status
    said = status(made, before.conditions, "SpecValid", event, made.observed_generation, now)
    if made.phase in TELLS_MORE:
        said = said.with_(reason=made.reason, message=made.message)
    steps = decision.events if made.phase is not before.phase else ()
    known = any((c.type, c.message) == ("SpecValid", event.message) for c in before.conditions)
    return replace(decision, status=said, events=steps if known else (*steps, event))
