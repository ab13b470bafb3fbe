"""What is wrong with the revision that serves: hard guards, breached metrics, alerts, and what has another cause."""

from datetime import datetime
from typing import NamedTuple

from backstay_contract.digest import PREFIX
from backstay_contract.evidence import AttemptVerdict, MetricVerdict, VerdictKind
from backstay_contract.metric import MetricName
from backstay_contract.reasons import Reason
from backstay_contract.rollback import AfterVerified, Trigger
from backstay_contract.status import Attempt, Rejection

from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.observation import FlipRecord
from backstay_operator.rollout.way_back.tree import Trouble
from backstay_operator.rollout.wording import ABORTED, how_far


class Troubles(NamedTuple):
    """The troubles of the revision itself, and those that it shares with another one."""

    own: tuple[Trouble, ...] = ()
    shared: tuple[Trouble, ...] = ()


def present(facts: Facts) -> Troubles:
    """What this pass finds, the worst first."""
    breached = _breached(facts.verdict)
    shared = tuple(one for one in breached if one.metric is not None and _is_shared(facts, one.metric))
    statistics = tuple(one for one in breached if one not in shared)
    if facts.attempt is None:
        if facts.spec.rollback.after_verified is AfterVerified.IGNORE:
            return Troubles(_rejected(facts))
        return Troubles((*_rejected(facts), *statistics, *_alerts(facts)), shared)
    return Troubles((*_hard(facts), *statistics, *_alerts(facts)), shared)


def _hard(facts: Facts) -> tuple[Trouble, ...]:
    """They come from the API server: no statistics are needed, and no metrics."""
    if facts.aborted:
        return (Trouble(Reason.ABORTED, ABORTED),)
    if facts.failure is not None and (facts.hard_failure or facts.candidate_ready == 0):
        pod, failure = facts.failure
        trigger = Trigger.HARDWARE_MISMATCH if failure.reason is Reason.HARDWARE_MISMATCH else None
        return (Trouble(failure.reason, f"pod {pod.name}: {failure.message}", trigger),)
    if facts.candidate_ready == 0:
        return (Trouble(Reason.PODS_NOT_READY, f"no pod of the new colour is ready; {how_far(facts)}"),)
    return ()


def _rejected(facts: Facts) -> tuple[Trouble, ...]:
    """What serves was rejected, and serves for want of a better one."""
    rejected = facts.rejection_of(facts.active) if facts.active is not None else None
    return () if rejected is None else (Trouble(Reason.REVISION_REJECTED, rejected.message or rejected.reason),)


def _breached(verdict: AttemptVerdict | None) -> tuple[Trouble, ...]:
    """The breached metrics, the one with the strongest evidence first."""
    found = [m for m in verdict.metrics if m.verdict is VerdictKind.BREACH] if verdict is not None else []
    return tuple(_trouble(metric) for metric in sorted(found, key=lambda m: m.e_value or 0.0, reverse=True))


def _trouble(metric: MetricVerdict) -> Trouble:
    said = f"{metric.metric}: {metric.message}"
    return Trouble(Reason.BREACH, said, Trigger(metric.metric.value), metric.metric, metric.estimate, metric.limit)


def _alerts(facts: Facts) -> tuple[Trouble, ...]:
    """Alerts that began since the active colour serves: what an earlier attempt was guilty of is no evidence."""
    active, since = facts.active, serves_since(facts.attempt, facts.observation.flip)
    if active is None or not active.digest:
        return ()
    return tuple(
        Trouble(Reason.ALERT, f"alert {alert.name}: {alert.message}", Trigger.ALERT)
        for alert in facts.observation.alerts
        if alert.digest.removeprefix(PREFIX) == active.digest.removeprefix(PREFIX)
        and (since is None or alert.since >= since)
    )


def serves_since(attempt: Attempt | None, flip: FlipRecord | None) -> datetime | None:
    """When what serves came into service: by the open attempt, or by the last flip."""
    if attempt is not None and attempt.switched_at is not None:
        return attempt.switched_at
    return flip.at if flip is not None else None


def _is_shared(facts: Facts, metric: MetricName) -> bool:
    """Another revision breached the same metric at once: the previous colour in this soak, or the revision that was
    left for it, lately. Then the cause is not the revision, and going on would burn one good revision after another."""
    beside = facts.previous_verdict
    if beside is not None and any(m.metric is metric and m.verdict is VerdictKind.BREACH for m in beside.metrics):
        return True
    return left_for(facts, metric)


def left_for(facts: Facts, metric: MetricName) -> bool:
    """Whether the last way back, less than a round ago, left another revision for this very metric."""
    active, last = facts.active, facts.status.rejected[-1] if facts.status.rejected else None
    if active is None or last is None or last.metric is not metric or last.attempt == active.attempt:
        return False
    return _came_back(facts, last) and (facts.now - last.at).total_seconds() < facts.spec.rollback.watch.round_seconds


def _came_back(facts: Facts, last: Rejection) -> bool:
    """Whether the active colour serves because of that rejection."""
    flip = facts.observation.flip
    return flip is not None and (flip.reason == Reason.RETURNING or (flip.rejects and flip.attempt == last.attempt))
