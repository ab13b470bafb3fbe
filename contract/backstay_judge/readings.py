"""From samples to readings: per pod and metric the cumulative counts, or the reason why there are none.

A reading is made only of whole, finite, fresh, unambiguous numbers. Everything else is refused with a reason and is
never a number: a value that is missing cannot pass and cannot breach.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from backstay_contract.evidence import EvidenceSource
from backstay_contract.metric import MetricName
from backstay_contract.names import Outcome, RuntimeMetric

from backstay_judge import buckets
from backstay_judge.buckets import Tally
from backstay_judge.refusal import ReadingError, Refusal, RefusalReason
from backstay_judge.rounds import ROUND_SERIES
from backstay_judge.samples import UP, Sample, check_age, check_up, is_finite, only, same_digest, whole_number
from backstay_judge.settings import Limit

PROCESS_START = "process_start_time_seconds"
SERIES = "series"
"""Basis of a count that is exact."""

HISTOGRAMS = {
    MetricName.P99_LATENCY: RuntimeMetric.REQUEST_SECONDS,
    MetricName.TTFT_P99: RuntimeMetric.TTFT_SECONDS,
}
"""Histograms that have one observation per request, so that their buckets can stand in for the exact count. The one
of inter-token gaps has many per request, and tokens per second has none: those two have only the exact count."""

COUNTED = (
    RuntimeMetric.JUDGED,
    RuntimeMetric.SLOW,
    RuntimeMetric.FINISHED,
    f"{RuntimeMetric.REQUEST_SECONDS}_bucket",
    f"{RuntimeMetric.TTFT_SECONDS}_bucket",
    RuntimeMetric.EVALUATION_ROUNDS,
    *ROUND_SERIES,
    PROCESS_START,
)
"""A pod's own series that are read; where a scraper adds `up`, that is read too."""


@dataclass(frozen=True)
class Counts:
    """One metric's cumulative counters of one pod, since its process started."""

    limit: float
    """In the metric's unit."""
    started: float
    """Unix seconds at which the process started."""
    judged: int
    beyond: int
    """Requests beyond the limit, at least."""
    beyond_at_most: int
    basis: str
    """`series`, or the edges that were counted between: counts of different bases cannot be subtracted."""


@dataclass(frozen=True)
class PodReading:
    """What one look saw of one pod."""

    pod: str
    source: EvidenceSource
    at: datetime
    """Time of the oldest sample that was used; the time of the look if none was."""
    counts: Mapping[MetricName, Counts]
    refused: Mapping[MetricName, Refusal]


def read_pods(
    samples: Iterable[Sample],
    *,
    source: EvidenceSource,
    digest: str,
    limits: Sequence[Limit],
    now: datetime,
    max_age_seconds: float,
) -> tuple[PodReading, ...]:
    """One reading per pod named in the samples' `pod` label, ordered by name; samples without one are left out."""
    by_pod: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if pod := sample.labels.get("pod"):
            by_pod[pod].append(sample)
    return tuple(
        read_pod(
            by_pod[pod],
            pod=pod,
            source=source,
            digest=digest,
            limits=limits,
            now=now,
            max_age_seconds=max_age_seconds,
        )
        for pod in sorted(by_pod)
    )


def read_pod(
    samples: Iterable[Sample],
    *,
    pod: str,
    source: EvidenceSource,
    digest: str,
    limits: Sequence[Limit],
    now: datetime,
    max_age_seconds: float,
) -> PodReading:
    """The reading of one pod.

    Only series labelled with the digest count, so that one colour's samples never speak for the other's. Samples older
    than `max_age_seconds` (two scrape intervals), or as far in the future, are refused.
    """
    series: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.name in (PROCESS_START, UP) or same_digest(sample.labels.get("digest", ""), digest):
            series[sample.name].append(sample)
    counts: dict[MetricName, Counts] = {}
    refused: dict[MetricName, Refusal] = {}
    used: list[Sample] = []
    for limit in limits:
        try:
            check_up(series[UP])
            tally, samples_used = _tally(series, limit)
            start = only(series[PROCESS_START], PROCESS_START)
            samples_used.append(start)
            check_age(samples_used, now, max_age_seconds)
            counts[limit.metric] = Counts(limit.value, _started(start), *tally)
            used += samples_used
        except ReadingError as refusal:
            refused[limit.metric] = refusal.refusal
    at = datetime.fromtimestamp(min(sample.timestamp for sample in used), UTC) if used else now
    return PodReading(pod, source, at, counts, refused)


def _started(sample: Sample) -> float:
    if not is_finite(sample.value) or sample.value <= 0:
        raise ReadingError(RefusalReason.NOT_A_COUNT, f"{PROCESS_START}: {sample.value!r} is not a time")
    return float(sample.value)


def _tally(series: Mapping[str, list[Sample]], limit: Limit) -> tuple[Tally, list[Sample]]:
    if limit.metric is MetricName.ERROR_RATE:
        return _errors(series)
    slow = [
        sample
        for sample in series.get(RuntimeMetric.SLOW, [])
        if sample.labels.get("metric") == limit.metric and _is_limit(sample.labels.get("limit", ""), limit.value)
    ]
    histogram = HISTOGRAMS.get(limit.metric)
    if slow or histogram is None or not series.get(f"{histogram}_bucket"):
        return _exact(series, slow, limit)
    cumulative, used = buckets.read(series[f"{histogram}_bucket"])
    return buckets.around(cumulative, limit.value / 1000), used


def _is_limit(label: str, limit: float) -> bool:
    try:
        return math.isclose(float(label), limit, rel_tol=1e-12)
    except ValueError:
        return False


def _exact(series: Mapping[str, list[Sample]], slow: Sequence[Sample], limit: Limit) -> tuple[Tally, list[Sample]]:
    judged = only(
        [s for s in series.get(RuntimeMetric.JUDGED, []) if s.labels.get("metric") == limit.metric],
        f'{RuntimeMetric.JUDGED}{{metric="{limit.metric}"}}',
    )
    beyond = only(slow, f'{RuntimeMetric.SLOW}{{metric="{limit.metric}",limit="{limit.value!r}"}}')
    return _exactly(whole_number(judged), whole_number(beyond)), [judged, beyond]


def _errors(series: Mapping[str, list[Sample]]) -> tuple[Tally, list[Sample]]:
    finished = series.get(RuntimeMetric.FINISHED, [])
    ok, error = (
        only(
            [sample for sample in finished if sample.labels.get("outcome") == outcome],
            f'{RuntimeMetric.FINISHED}{{outcome="{outcome}"}}',
        )
        for outcome in (Outcome.OK, Outcome.ERROR)
    )
    errors = whole_number(error)
    return _exactly(whole_number(ok) + errors, errors), [ok, error]


def _exactly(judged: int, beyond: int) -> Tally:
    # A scrape is not atomic, so this can be seen for a moment; the next look will be consistent.
    if beyond > judged:
        raise ReadingError(RefusalReason.INCONSISTENT, f"{beyond} requests beyond the limit of only {judged} judged")
    return Tally(judged, beyond, beyond, SERIES)
