"""What outlives a step: a slow way back and degraded mode, until nothing needs them; at rest, the watch's verdicts."""

from collections.abc import Sequence
from typing import Any

from backstay_contract.evidence import MetricVerdict, VerdictKind
from backstay_contract.status import Attempt, Degraded, HistoryEntry, ModelDeploymentStatus, Returning

from backstay_operator.rollout import history
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.plan import After

NEWS_AT_REST = (VerdictKind.PASS, VerdictKind.BREACH, VerdictKind.POD_OUTLIER)
"""Verdicts that replace another one at rest. Each round begins undecided: to write that would be no news."""


def changes(facts: Facts, made: dict[str, Any], after: After) -> dict[str, Any]:
    """What the step leaves behind beside its own changes."""
    updated = facts.status.with_(**made)
    kept: dict[str, Any] = {
        "returning": _returning(facts, updated, after),
        "degraded": _degraded(facts, updated, after),
    }
    kept["history"] = _recipes(facts, updated)
    if facts.attempt is None and after.attempt is None and facts.verdict is not None:
        kept["verdicts"] = at_rest(updated.verdicts, facts.verdict.metrics)
    return kept


def _recipes(facts: Facts, updated: ModelDeploymentStatus) -> tuple[HistoryEntry, ...]:
    """The history, with what the spec says now of the revision that it asks for: an address may have moved since."""
    wanted = facts.wanted
    return tuple(
        entry.with_(recipe=wanted.recipe)
        if entry.revision == wanted.revision and entry.recipe != wanted.recipe
        else entry
        for entry in updated.history
    )


def _returning(facts: Facts, updated: ModelDeploymentStatus, after: After) -> Returning | None:
    """It ends when its revision serves and its attempt is over, and when people ask for something else."""
    returning = updated.returning
    if returning is None or not history.way_back_is_open(updated, facts.aim, facts.spec.rollout):
        return _soaking(returning, after.attempt)
    serves = after.selector is not None and facts.observation.colours[after.selector].revision == returning.to
    return None if serves and after.attempt is None else returning


def _soaking(returning: Returning | None, attempt: Attempt | None) -> Returning | None:
    """A fix that is asked for in the soak of a way back must still find out that it is one."""
    if returning is None or attempt is None or attempt.switched_at is None:
        return None
    return returning if attempt.revision == returning.to else None


def _degraded(facts: Facts, updated: ModelDeploymentStatus, after: After) -> Degraded | None:
    """It ends with the revision's last use: it serves no more, and is not kept warm as the previous one."""
    degraded = updated.degraded
    if degraded is None or after.selector is None:
        return degraded
    colours = facts.observation.colours
    used = {_revision(facts, colours[after.selector].revision)}
    if after.attempt is not None:
        used |= {state.revision for state in colours.values()}
    return degraded if degraded.revision in used else None


def _revision(facts: Facts, shown: str) -> str:
    """Of the active colour, also while its Deployment is built again."""
    return shown or (facts.vanished.revision if facts.vanished is not None else "")


def at_rest(stored: Sequence[MetricVerdict], found: Sequence[MetricVerdict]) -> tuple[MetricVerdict, ...]:
    """The verdicts to show: a metric's new one only where it is of another kind, so that a look writes nothing."""
    by_metric = {one.metric: one for one in stored}
    for verdict in found:
        before = by_metric.get(verdict.metric)
        if verdict.verdict in NEWS_AT_REST and (before is None or before.verdict is not verdict.verdict):
            by_metric[verdict.metric] = verdict
    return tuple(by_metric.values())
