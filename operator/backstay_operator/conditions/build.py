"""Conditions in Kubernetes' own form: what is wanted, laid over what was there."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple

from backstay_contract.reasons import Reason
from backstay_contract.status import Condition

Truth = Literal["True", "False", "Unknown"]


class Wanted(NamedTuple):
    """A condition as the present pass sees it."""

    type: str
    status: Truth
    reason: Reason
    message: str = ""


def build(
    previous: Iterable[Condition], wanted: Iterable[Wanted], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The wanted conditions, in the given order; one that is not wanted any more vanishes.

    lastTransitionTime is when the *status* last changed: another reason or message of the same status keeps it.
    Raises ValueError if a type is wanted twice, since Kubernetes keys the list by type.
    """
    before = {condition.type: condition for condition in previous}
    built: dict[str, Condition] = {}
    for want in wanted:
        if want.type in built:
            raise ValueError(f"condition {want.type}: wanted twice in one pass")
        old = before.get(want.type)
        kept = old is not None and old.status == want.status
        built[want.type] = Condition(
            type=want.type,
            status=want.status,
            reason=want.reason,
            message=want.message,
            last_transition_time=old.last_transition_time if old is not None and kept else now,
            observed_generation=generation,
        )
    return tuple(built.values())
