"""What one metric's evidence decides.

What is missing or cannot be trusted is NoData and decides nothing. A Breach needs its e-value, two windows beyond the
allowed fraction and, where there are two pods, the others to show it too without any one of them. So a total failure is
seen after two requests only if they fall into two windows (and on two pods): with an interval of 1 s, after 2 s.
"""

import math
from datetime import datetime
from typing import Any, NamedTuple

from backstay_contract.evidence import MAX_MESSAGE, MetricEvidence, MetricVerdict, VerdictKind
from backstay_contract.metric import KINDS, MetricName, pass_fraction

from backstay_judge.coverage import Coverage, gap
from backstay_judge.sequential import clean_requests_for_pass
from backstay_judge.settings import Limit, Settings
from backstay_judge.weighing import Weight, lone_culprit, pods_with_requests, weigh
from backstay_judge.wilson import wilson


class Decision(NamedTuple):
    """A verdict with its reason, and the pod at fault if it is one pod's."""

    verdict: VerdictKind
    reason: str
    message: str
    pod: str | None = None


def metric_verdict(
    limit: Limit,
    evidence: MetricEvidence | None,
    coverage: Coverage,
    *,
    judged_metrics: int,
    now: datetime,
    settings: Settings,
) -> MetricVerdict:
    """The verdict of one metric; `judged_metrics` (this one included) share alpha."""
    missing = gap(coverage, limit, evidence)
    if evidence is None:
        reason, message = (missing.reason, missing.message) if missing else ("NoEvidence", "")
        return _verdict(limit, coverage, now, Decision(VerdictKind.NO_DATA, reason, message), {})
    weight = weigh(evidence, judged_metrics, settings)
    if missing:
        decision = Decision(VerdictKind.NO_DATA, missing.reason, missing.message)
    else:
        decision = decide(evidence, weight, len(coverage.ready), settings)
    return _verdict(limit, coverage, now, decision, _numbers(evidence, weight))


def decide(evidence: MetricEvidence, weight: Weight, ready_pods: int, settings: Settings) -> Decision:
    """What complete evidence decides: the checks in order, the first that holds."""
    if weight.reaches_breach:
        return _breach_or_not_yet(evidence, weight, ready_pods, settings)
    if weight.reaches_pass:
        return _pass_or_not_yet(evidence, weight, ready_pods, settings)
    if weight.overdispersed:
        why = f"windows differ {weight.dispersion:.1f} times as much as independent requests would"
        return Decision(VerdictKind.INCONCLUSIVE, "LoadCorrelated", f"{_counts(evidence)}; {why}")
    need = clean_requests_for_pass(pass_fraction(evidence.metric, evidence.allowed_fraction), settings.alpha_pass)
    hint = f"a Pass needs {need} requests if none is beyond the limit" if evidence.n < need else _scale(weight)
    return Decision(VerdictKind.INCONCLUSIVE, "InsufficientData", f"{_counts(evidence)}; {hint}")


def _breach_or_not_yet(evidence: MetricEvidence, weight: Weight, ready_pods: int, settings: Settings) -> Decision:
    counts = _counts(evidence)
    if evidence.windows.beyond < settings.min_windows:
        why = f"{evidence.windows.beyond} of the {settings.min_windows} windows that a Breach needs are beyond it"
        return Decision(VerdictKind.INCONCLUSIVE, "AwaitingWindows", f"{counts}; {why}")
    pods = pods_with_requests(evidence)
    if max(ready_pods, len(pods)) >= settings.min_pods > 1:
        if len(pods) < settings.min_pods:
            why = f"all requests went to {len(pods)} of {ready_pods} pods"
            return Decision(VerdictKind.INCONCLUSIVE, "AwaitingPods", f"{counts}; {why}")
        culprit = lone_culprit(evidence, settings)
        if culprit:
            rest = f"without {culprit.pod} ({culprit.k} of {culprit.n}) the other pods do not show it"
            return Decision(VerdictKind.POD_OUTLIER, "PodOutlier", f"{counts}; {rest}", culprit.pod)
    return Decision(VerdictKind.BREACH, "BeyondLimit", f"{counts}; {_scale(weight)}")


def _pass_or_not_yet(evidence: MetricEvidence, weight: Weight, ready_pods: int, settings: Settings) -> Decision:
    counts = _counts(evidence)
    closed, pods = evidence.windows.closed, len(pods_with_requests(evidence))
    if closed < settings.min_windows:
        why = f"{closed} of the {settings.min_windows} windows that a Pass needs are over"
        return Decision(VerdictKind.INCONCLUSIVE, "AwaitingWindows", f"{counts}; {why}")
    if pods < min(settings.min_pods, ready_pods):
        why = f"all requests went to {pods} of {ready_pods} pods"
        return Decision(VerdictKind.INCONCLUSIVE, "AwaitingPods", f"{counts}; {why}")
    return Decision(VerdictKind.PASS, "WithinLimit", f"{counts}; {_scale(weight)}")


def _counts(evidence: MetricEvidence) -> str:
    low, high = wilson(evidence.n, evidence.k)
    kind = KINDS[evidence.metric]
    if evidence.metric is MetricName.ERROR_RATE:
        what = "failed"
    else:
        what = f"{'below' if kind.lower_is_worse else 'above'} {evidence.limit:g} {kind.unit}"
    share = f"{evidence.k / evidence.n:.2%}, 95 % interval {low:.2%} to {high:.2%}" if evidence.n else "no requests"
    return f"{evidence.k} of {evidence.n} requests {what} ({share}), at most {evidence.allowed_fraction:.3g} may"


def _scale(weight: Weight) -> str:
    return (
        f"evidence for Breach 10^{_log10(weight.beyond):.2f} of 10^{_log10(weight.breach_at):.2f},"
        f" for Pass 10^{_log10(weight.within):.2f} of 10^{_log10(weight.pass_at):.2f}"
    )


def _numbers(evidence: MetricEvidence, weight: Weight) -> dict[str, Any]:
    low, high = wilson(evidence.n, evidence.k)
    return {
        "n": evidence.n,
        "k": evidence.k,
        "estimate": evidence.k / evidence.n if evidence.n else None,
        "wilson_low": low,
        "wilson_high": high,
        "e_value": _log10(weight.beyond),
        "breach_at": _log10(weight.breach_at),
        "pass_e_value": _log10(weight.within),
        "pass_at": _log10(weight.pass_at),
        "dispersion": weight.dispersion,
        "windows": evidence.windows.closed,
        "pods": len(pods_with_requests(evidence)),
    }


def _log10(natural: float) -> float:
    return natural / math.log(10)


def _verdict(
    limit: Limit, coverage: Coverage, now: datetime, decision: Decision, numbers: dict[str, Any]
) -> MetricVerdict:
    return MetricVerdict(
        metric=limit.metric,
        verdict=decision.verdict,
        reason=decision.reason,
        message=decision.message[:MAX_MESSAGE],
        pod=decision.pod,
        at=now,
        limit=limit.value,
        unit=KINDS[limit.metric].unit,
        allowed_fraction=limit.allowed_fraction,
        source=coverage.source,
        query=coverage.query[:512] if coverage.query else None,
        **numbers,
    )
