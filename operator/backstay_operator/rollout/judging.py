"""One look at the metrics, counted into the attempt's evidence and judged.

Before the flip a look only takes the base that the soak counts from, and shows whether metrics can be read at all.
"""

from collections.abc import Sequence
from datetime import datetime

from backstay_contract.evidence import AttemptVerdict, EvidenceSource, VerdictKind
from backstay_contract.metric import MetricName
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import Attempt
from backstay_judge import accumulate
from backstay_judge.coverage import Coverage
from backstay_judge.readings import PodReading, read_pods
from backstay_judge.settings import Limit, Settings, limits_on_requests
from backstay_judge.verdict import judge

from backstay_operator.rollout.observation import ColourState, Look

MAX_AGE_SECONDS = 10.0
"""A sample older than this shows the past. Prometheus must scrape at least every five seconds."""

SHOWN = (
    MetricName.P99_LATENCY,
    MetricName.TTFT_P99,
    MetricName.INTER_TOKEN_P99,
    MetricName.ERROR_RATE,
    MetricName.TOKENS_PER_SECOND,
)
"""Metrics that get a verdict in every attempt; one without a baseline is shown as skipped."""


def advance(
    spec: ModelDeploymentSpec,
    attempt: Attempt,
    judged: ColourState,
    look: Look | None,
    now: datetime,
    switched: bool,
) -> tuple[Attempt, AttemptVerdict | None]:
    """The attempt after this pass's look, and the verdict after the flip; both unchanged where there was no look."""
    if look is None or not attempt.limits:
        return attempt, None
    wanted = limits_on_requests(_limits(attempt))
    ready = frozenset(pod.name for pod in judged.pods if pod.attempt == attempt.id and pod.ready)
    readings = tuple(
        reading
        for reading in read_pods(
            look.samples,
            source=look.source or EvidenceSource.PODS,
            digest=attempt.digest,
            limits=wanted,
            now=now,
            max_age_seconds=MAX_AGE_SECONDS,
        )
        if reading.pod in ready
    )
    if not switched:
        return _take_base(attempt, wanted, readings, ready, now), None
    coverage = Coverage(
        ready=ready,
        readings=readings,
        source=look.source,
        unavailable=look.problem if not look.samples and look.problem else None,
    )
    return _count(spec, attempt, coverage, now)


def _limits(attempt: Attempt) -> dict[MetricName, float | None]:
    given = {one.metric: one.limit for one in attempt.limits}
    return {metric: given.get(metric) for metric in SHOWN}


def _take_base(
    attempt: Attempt,
    wanted: Sequence[Limit],
    readings: Sequence[PodReading],
    ready: frozenset[str],
    now: datetime,
) -> Attempt:
    complete = bool(ready) and all(
        any(r.pod == pod and all(limit.metric in r.counts for limit in wanted) for r in readings) for pod in ready
    )
    if not complete:
        return attempt.with_(held_since=attempt.held_since or now)
    return attempt.with_(evidence=accumulate.begin(wanted, readings, now), held_since=None)


def _count(
    spec: ModelDeploymentSpec, attempt: Attempt, coverage: Coverage, now: datetime
) -> tuple[Attempt, AttemptVerdict]:
    soak, limits = spec.rollout.soak, _limits(attempt)
    evidence = attempt.evidence or accumulate.begin(limits_on_requests(limits), coverage.readings, now)
    evidence = accumulate.add(evidence, coverage.readings, now, soak.interval_seconds)
    settings = Settings(alpha=soak.alpha, alpha_pass=soak.alpha_pass)
    verdict = judge(limits, evidence, coverage, now, settings)
    clock = _clock(attempt, now, verdict.verdict is VerdictKind.NO_DATA, soak.interval_seconds)
    return clock.with_(evidence=evidence), verdict


def _clock(attempt: Attempt, now: datetime, dark: bool, interval_seconds: float) -> Attempt:
    """The soak clock counts seconds with data only: between two looks that both saw the pods.

    After a dark look one that sees again speaks for one interval, no more: the clock pauses in an outage, and metrics
    that come and go slow it down without stopping it for ever.
    """
    if dark:
        return attempt.with_(held_since=attempt.held_since or now)
    seconds = attempt.observed_seconds
    since = attempt.last_data_at or attempt.switched_at
    if since is not None:
        passed = max(0.0, (now - since).total_seconds())
        seconds += passed if attempt.held_since is None else min(passed, interval_seconds)
    return attempt.with_(observed_seconds=seconds, last_data_at=now, held_since=None)
