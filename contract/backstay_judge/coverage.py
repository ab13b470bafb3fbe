"""Whether a look saw what there was to see: a trustworthy reading of every ready pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from backstay_contract.evidence import EvidenceSource, MetricEvidence

from backstay_judge.readings import PodReading
from backstay_judge.rounds import PodRound
from backstay_judge.settings import Limit


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """One look: which pods were ready, and what was read of them."""

    ready: frozenset[str]
    """Names of the judged colour's pods that are ready, from the API server."""
    readings: Sequence[PodReading] = ()
    rounds: Mapping[str, PodRound] = field(default_factory=dict)
    """The pods' last rounds over the evaluation set: what perplexity is judged on."""
    source: EvidenceSource | None = None
    query: str | None = None
    """The query, for showing."""
    unavailable: str | None = None
    """Why the source as a whole gave nothing (unreachable, 401, 5xx, timeout, not JSON); None if it answered."""


@dataclass(frozen=True)
class Gap:
    """Why a metric has NoData: a CamelCase reason and a sentence."""

    reason: str
    message: str


def blindness(coverage: Coverage) -> Gap | None:
    """Why the look saw nothing at all, or None if it saw something."""
    if coverage.unavailable is not None:
        return Gap("SourceUnavailable", f"{coverage.source or 'metrics'}: {coverage.unavailable}")
    return None if coverage.ready else Gap("NoReadyPods", "no pod is ready")


def gap(coverage: Coverage, limit: Limit, evidence: MetricEvidence | None) -> Gap | None:
    """What is missing for the limit's metric in this look, or None if nothing is."""
    if blind := blindness(coverage):
        return blind
    if evidence is None:
        return Gap("NoEvidence", "nothing has been counted in this attempt yet")
    if evidence.limit != limit.value:
        counted = f"requests were counted against {evidence.limit:g}, the limit is now {limit.value:g}"
        return Gap("LimitChanged", f"{counted}: evidence must begin again")
    return _unread(coverage, limit) or _uncounted(coverage, evidence)


def _unread(coverage: Coverage, limit: Limit) -> Gap | None:
    metric = limit.metric
    by_pod = {reading.pod: reading for reading in coverage.readings}
    missing = [pod for pod in sorted(coverage.ready) if pod not in by_pod or metric not in by_pod[pod].counts]
    if not missing:
        return None
    first = by_pod.get(missing[0])
    refusal = first.refused.get(metric) if first else None
    reason = refusal.reason.value if refusal else "PodNotScraped"
    message = refusal.message if refusal else "no sample of this pod"
    return Gap(reason, f"{len(missing)} of {len(coverage.ready)} ready pods have no reading; {missing[0]}: {message}")


def _uncounted(coverage: Coverage, evidence: MetricEvidence) -> Gap | None:
    missing = sorted(coverage.ready - {pod.pod for pod in evidence.pods})
    if not missing:
        return None
    return Gap(
        "PodNotCounted",
        f"{len(missing)} of {len(coverage.ready)} ready pods are not in the evidence, {missing[0]} for one: they were"
        " read against another limit, or there are more pods than evidence can hold",
    )
