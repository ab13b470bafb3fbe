"""What is to be told, as the status remembers it from the write that made it true. Pure.

An operator may die between that write and the telling; the next one finds the notice in the status.
"""

from collections.abc import Iterable
from datetime import datetime

from backstay_contract.evidence import MetricVerdict, VerdictKind
from backstay_contract.status import MAX_NOTICES, ModelDeploymentStatus, Notice, Numbers

from backstay_operator.rollout.decision import Event

RETOLD_SECONDS = 600.0
"""Well below the hour for which the API server keeps events, and with them the knowledge of what was told."""
MAX_MESSAGE = 1024
"""Characters; the API server refuses a longer note of an Event."""


def of(event: Event, status: ModelDeploymentStatus, now: datetime) -> Notice:
    """The event with the numbers and revisions that stand in the status of the same pass."""
    attempt, active, previous = status.attempt, status.active, status.previous
    return Notice(
        id=event.id,
        reason=event.reason.value,
        message=event.message if len(event.message) <= MAX_MESSAGE else event.message[: MAX_MESSAGE - 1] + "…",
        warning=event.warning,
        at=now,
        attempt=attempt.id if attempt else None,
        revision=attempt.revision if attempt else None,
        digest=attempt.digest if attempt else None,
        version=attempt.version if attempt else None,
        active_revision=active.revision if active else None,
        previous_revision=previous.revision if previous else None,
        numbers=_numbers(status),
    )


def recorded(before: Iterable[Notice], new: Iterable[Notice]) -> tuple[Notice, ...]:
    """The notices that the status shall hold: the latest ones."""
    return (*before, *new)[-MAX_NOTICES:]


def lately(notices: Iterable[Notice], now: datetime) -> tuple[Notice, ...]:
    """Those that an operator that starts tells again, in case the one before it could not."""
    return tuple(one for one in notices if (now - one.at).total_seconds() <= RETOLD_SECONDS)


def _numbers(status: ModelDeploymentStatus) -> Numbers | None:
    """Of the metric that decided: one that breached, else the one with the least to spare."""
    attempt = status.attempt
    judged = [one for one in status.verdicts if one.limit is not None]
    if attempt is None or attempt.switched_at is None or not judged:
        return _numbers_of_the_rejection(status)
    deciding = max(judged, key=_weight)
    return Numbers(
        metric=deciding.metric,
        observed=deciding.estimate,
        limit=deciding.limit,
        n=deciding.n,
        k=deciding.k,
        e_value=deciding.e_value,
    )


def _numbers_of_the_rejection(status: ModelDeploymentStatus) -> Numbers | None:
    """Before the flip only a rejection has numbers: those of the evaluation set."""
    last = status.rejected[-1] if status.rejected else None
    if last is None or last.metric is None or status.attempt is None or last.attempt != status.attempt.id:
        return None
    return Numbers(metric=last.metric, observed=last.observed, limit=last.limit)


def _weight(verdict: MetricVerdict) -> tuple[bool, float]:
    return verdict.verdict is VerdictKind.BREACH, verdict.e_value if verdict.e_value is not None else float("-inf")
