"""Samples, readings and evidence in the words of the tests."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from backstay_contract.evidence import AttemptVerdict, EvidenceSource, MetricEvidence
from backstay_contract.metric import MetricName
from backstay_contract.names import RuntimeMetric, format_limit
from backstay_judge import Counts, Coverage, Limit, PodReading, Sample, Settings, add, begin, judge

FLIP = datetime(2026, 1, 1, tzinfo=UTC)
BEFORE_FLIP = FLIP.timestamp() - 60
"""Start of a process that took part in the checks."""
DIGEST = "9f" * 32
OTHER_DIGEST = "1a" * 32
LATENCY = Limit(MetricName.P99_LATENCY, 840.0, 0.01)
ERRORS = Limit(MetricName.ERROR_RATE, 0.01, 0.01)
P99 = MetricName.P99_LATENCY
INTERVAL = 1.0


def at(seconds: float) -> datetime:
    """A time, in seconds after the flip."""
    return FLIP + timedelta(seconds=seconds)


def reading(
    pod: str,
    judged: int,
    beyond: int = 0,
    *,
    seconds: float = 0,
    started: float = BEFORE_FLIP,
    source: EvidenceSource = EvidenceSource.PODS,
    at_most: int | None = None,
    basis: str = "series",
    limit: Limit = LATENCY,
) -> PodReading:
    """A pod's cumulative counters as read so many seconds after the flip."""
    most = beyond if at_most is None else at_most
    counts = {limit.metric: Counts(limit.value, started, judged, beyond, most, basis)}
    return PodReading(pod, source, at(seconds), counts, {})


def evidence_of(windows: Sequence[Mapping[str, tuple[int, int]]], limit: Limit = LATENCY) -> MetricEvidence:
    """Evidence after windows of one second; each says per pod (requests, of them beyond the limit)."""
    pods = sorted({pod for window in windows for pod in window})
    totals = dict.fromkeys(pods, (0, 0))
    found = begin([limit], [reading(pod, 0, limit=limit) for pod in pods], FLIP)
    for second, window in enumerate(windows, start=1):
        for pod, (n, k) in window.items():
            totals[pod] = (totals[pod][0] + n, totals[pod][1] + k)
        look = [reading(pod, *totals[pod], seconds=second, limit=limit) for pod in pods]
        found = add(found, look, at(second), INTERVAL)
    return found[0]


def full_coverage(evidence: MetricEvidence) -> Coverage:
    """A look that saw every pod of the evidence."""
    limit = Limit(evidence.metric, evidence.limit, evidence.allowed_fraction)
    return Coverage(
        ready=frozenset(pod.pod for pod in evidence.pods),
        readings=[
            reading(pod.pod, pod.judged, pod.beyond, at_most=pod.beyond_at_most, limit=limit) for pod in evidence.pods
        ],
        source=EvidenceSource.PODS,
        query="GET /metrics",
    )


def judged(windows: Sequence[Mapping[str, tuple[int, int]]], settings: Settings | None = None) -> AttemptVerdict:
    """The verdict on p99LatencyMs after these windows."""
    evidence = evidence_of(windows)
    return judge({P99: LATENCY.value}, [evidence], full_coverage(evidence), at(len(windows)), settings or Settings())


def samples(
    pod: str,
    *,
    judged: float = 0,
    beyond: float = 0,
    ok: float = 0,
    errors: float = 0,
    started: float = BEFORE_FLIP,
    digest: str = DIGEST,
    seconds: float = 0,
    limit: Limit = LATENCY,
) -> list[Sample]:
    """A pod's series as the runtime exports them."""
    labels = {"pod": pod, "model": "chat", "version": "1.0.0", "digest": digest}
    metric = {"metric": limit.metric.value}
    time = at(seconds).timestamp()
    slow = {**metric, "limit": format_limit(limit.value)}
    return [
        Sample(RuntimeMetric.JUDGED, labels | metric, judged, time),
        Sample(RuntimeMetric.SLOW, labels | slow, beyond, time),
        Sample(RuntimeMetric.FINISHED, labels | {"outcome": "ok"}, ok, time),
        Sample(RuntimeMetric.FINISHED, labels | {"outcome": "error"}, errors, time),
        Sample(RuntimeMetric.FINISHED, labels | {"outcome": "cancelled"}, 7, time),
        Sample(RuntimeMetric.FINISHED, labels | {"outcome": "rejected"}, 11, time),
        Sample("process_start_time_seconds", {"pod": pod}, started, time),
        Sample("up", {"pod": pod}, 1, time),
    ]


def histogram(
    pod: str, cumulative: Iterable[tuple[str, float]], *, name: str = RuntimeMetric.REQUEST_SECONDS, seconds: float = 0
) -> list[Sample]:
    """A pod's histogram from (le, cumulative count), with its process's start time."""
    time = at(seconds).timestamp()
    labels = {"pod": pod, "digest": DIGEST}
    found = [Sample(f"{name}_bucket", labels | {"le": edge}, count, time) for edge, count in cumulative]
    return [*found, Sample("process_start_time_seconds", {"pod": pod}, BEFORE_FLIP, time)]
