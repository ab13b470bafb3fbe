"""The verdict of an attempt: one of every listed metric, and what they say together.

The soak's shortest time is not looked at here: the rollout machine counts observed seconds and holds a Pass until then.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from backstay_contract.evidence import (
    MAX_MESSAGE,
    AttemptVerdict,
    MetricEvidence,
    MetricVerdict,
    VerdictKind,
)
from backstay_contract.metric import KINDS, MetricName

from backstay_judge.coverage import Coverage, blindness
from backstay_judge.deciding import metric_verdict
from backstay_judge.rounds import judge_rounds, without_rounds
from backstay_judge.settings import Settings, limits_on_requests

ORDER = (VerdictKind.BREACH, VerdictKind.NO_DATA, VerdictKind.POD_OUTLIER, VerdictKind.INCONCLUSIVE)
"""The first of these that any judged metric has is the attempt's verdict; without any, it is Pass."""


def judge(
    limits: Mapping[MetricName, float | None],
    evidence: Sequence[MetricEvidence],
    coverage: Coverage,
    now: datetime,
    settings: Settings,
) -> AttemptVerdict:
    """The verdict of an attempt, with one of every listed metric.

    `limits` lists the metrics with their limits; None says that no baseline gives one, which is a visible skip.
    `evidence` is what `accumulate.add` made of this look's readings, which are in `coverage`.
    """
    by_metric = {one.metric: one for one in evidence}
    to_judge = {limit.metric: limit for limit in limits_on_requests(limits)}
    judged_metrics = sum(limit is not None for limit in limits.values())
    verdicts = []
    for metric, value in limits.items():
        if value is None:
            verdicts.append(_skipped(metric, now))
        elif metric is MetricName.PERPLEXITY:
            verdicts.append(_perplexity(value, coverage, judged_metrics, now, settings))
        else:
            verdicts.append(
                metric_verdict(
                    to_judge[metric],
                    by_metric.get(metric),
                    coverage,
                    judged_metrics=judged_metrics,
                    now=now,
                    settings=settings,
                )
            )
    return overall(verdicts, now)


def _perplexity(
    limit: float, coverage: Coverage, judged_metrics: int, now: datetime, settings: Settings
) -> MetricVerdict:
    blind = blindness(coverage)
    if blind:
        found = without_rounds(VerdictKind.NO_DATA, blind.reason, blind.message, limit, now)
    else:
        found = judge_rounds(
            coverage.rounds, coverage.ready, limit=limit, now=now, settings=settings.shared_by(judged_metrics)
        )
    return found.with_(source=coverage.source, query=coverage.query[:512] if coverage.query else None)


def overall(verdicts: Sequence[MetricVerdict], now: datetime) -> AttemptVerdict:
    """The attempt's verdict: Breach if any is; else NoData if any is; Pass if all judged are and at least one is."""
    judged = [verdict for verdict in verdicts if verdict.verdict is not VerdictKind.SKIPPED]
    if not judged:
        return _attempt(VerdictKind.INCONCLUSIVE, "NothingJudged", "no listed metric has a limit", now, verdicts)
    for kind in ORDER:
        first = next((verdict for verdict in judged if verdict.verdict is kind), None)
        if first:
            # One bad pod decides nothing about the model.
            told = VerdictKind.INCONCLUSIVE if kind is VerdictKind.POD_OUTLIER else kind
            return _attempt(told, first.reason, f"{first.metric}: {first.message}", now, verdicts)
    names = ", ".join(verdict.metric for verdict in judged)
    return _attempt(VerdictKind.PASS, "WithinLimits", f"within the limits: {names}", now, verdicts)


def _attempt(
    kind: VerdictKind, reason: str, message: str, now: datetime, verdicts: Sequence[MetricVerdict]
) -> AttemptVerdict:
    return AttemptVerdict(verdict=kind, reason=reason, message=message[:MAX_MESSAGE], at=now, metrics=tuple(verdicts))


def _skipped(metric: MetricName, now: datetime) -> MetricVerdict:
    reason, why = "NoBaseline", "no baseline gives a limit, neither spec.baselines nor the manifest"
    if metric is MetricName.PERPLEXITY:
        reason, why = "NotEvaluated", "the manifest has no evaluation set, or rollout.checks.evaluation is not enabled"
    return MetricVerdict(
        metric=metric,
        verdict=VerdictKind.SKIPPED,
        reason=reason,
        message=f"{metric} is not judged: {why}",
        at=now,
        unit=KINDS[metric].unit,
    )
