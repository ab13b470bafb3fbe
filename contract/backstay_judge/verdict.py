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

from backstay_judge.coverage import Coverage
from backstay_judge.deciding import metric_verdict
from backstay_judge.settings import Settings, limits_on_requests

ORDER = (VerdictKind.BREACH, VerdictKind.NO_DATA, VerdictKind.POD_OUTLIER, VerdictKind.INCONCLUSIVE)
"""The first of these that any judged metric has is the attempt's verdict; without any, it is Pass."""


def judge(
    limits: Mapping[MetricName, float | None],
    evidence: Sequence[MetricEvidence],
    coverage: Coverage,
    now: datetime,
    settings: Settings,
    *,
    reached: Sequence[MetricVerdict] = (),
) -> AttemptVerdict:
    """The verdict of an attempt, with one of every listed metric.

    `limits` lists the metrics with their limits; None says that no baseline gives one, which is a visible skip.
    `evidence` is what `accumulate.add` made of this look's readings, which are in `coverage`. `reached` holds verdicts
    that were found another way (perplexity on the evaluation set): they stand as they are, and have their share of
    alpha.
    """
    found = {verdict.metric: verdict for verdict in reached}
    by_metric = {one.metric: one for one in evidence}
    to_judge = {limit.metric: limit for limit in limits_on_requests(limits) if limit.metric not in found}
    judged_metrics = len(to_judge) + sum(one.verdict is not VerdictKind.SKIPPED for one in reached)
    verdicts = []
    for metric, value in limits.items():
        if metric in found:
            verdicts.append(found[metric])
        elif metric in to_judge:
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
        else:
            verdicts.append(_skipped(metric, value, now))
    verdicts += [verdict for verdict in reached if verdict.metric not in limits]
    return overall(verdicts, now)


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


def _skipped(metric: MetricName, limit: float | None, now: datetime) -> MetricVerdict:
    if limit is None:
        reason, why = "NoBaseline", "no baseline gives a limit, neither spec.baselines nor the manifest"
    else:
        reason, why = "NotJudgedOnRequests", "it is judged on the evaluation set, which was not run"
    return MetricVerdict(
        metric=metric,
        verdict=VerdictKind.SKIPPED,
        reason=reason,
        message=f"{metric} is not judged: {why}",
        at=now,
        limit=limit,
        unit=KINDS[metric].unit,
    )
