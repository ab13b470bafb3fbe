"""One look at the metrics, counted into the attempt's evidence and judged.

Before the flip a look only takes the base that the soak counts from, and shows whether metrics can be read at all.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from backstay_contract.evidence import AttemptVerdict, EvidenceSource, MetricEvidence, VerdictKind
from backstay_contract.metric import MetricName
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import Attempt, MetricLimit
from backstay_judge import accumulate
from backstay_judge.coverage import Coverage
from backstay_judge.readings import read_pods
from backstay_judge.rounds import read_rounds
from backstay_judge.settings import Settings, limits_on_requests
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
    MetricName.PERPLEXITY,
)
"""Metrics that get a verdict in every attempt; one without a baseline is shown as skipped."""


LATE_SECONDS, LATE_INTERVALS = 10.0, 3.0
"""A look that comes later than the greater of the two speaks for no more of the time before it."""


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
    limits = limits_of(spec, attempt.limits)
    coverage = read(look, judged, attempt.id, attempt.digest, limits, now)
    if not switched:
        return _take_base(attempt, coverage, limits, now), None
    soak = spec.rollout.soak
    settings = Settings(alpha=soak.alpha, alpha_pass=soak.alpha_pass)
    evidence, verdict = count(attempt.evidence, coverage, limits, now, soak.interval_seconds, settings)
    clock = _clock(attempt, now, verdict.verdict is VerdictKind.NO_DATA, soak.interval_seconds)
    return clock.with_(evidence=evidence), verdict


def advance_previous(
    spec: ModelDeploymentSpec,
    attempt: Attempt,
    previous: ColourState,
    own_limits: Sequence[MetricLimit],
    look: Look | None,
    now: datetime,
    switched: bool,
) -> tuple[Attempt, AttemptVerdict | None]:
    """The same for the other colour, against its own limits. It serves until the flip, and what is left over after it:
    kept-alive connections' last requests and those under way."""
    if look is None or not attempt.limits or not previous.own_pods:
        return attempt, None
    limits = limits_of(spec, own_limits or attempt.limits)
    coverage = read(look, previous, previous.attempt, previous.digest, limits, now)
    if not switched:
        return attempt.with_(
            previous_evidence=accumulate.begin(limits_on_requests(limits), coverage.readings, now)
        ), None
    soak = spec.rollout.soak
    settings = Settings(alpha=soak.alpha, alpha_pass=soak.alpha_pass)
    evidence, verdict = count(attempt.previous_evidence, coverage, limits, now, soak.interval_seconds, settings)
    return attempt.with_(previous_evidence=evidence), verdict


def metric_limits(limits: Mapping[MetricName, float]) -> tuple[MetricLimit, ...]:
    """The limits as the status holds them."""
    return tuple(MetricLimit(metric=metric, limit=limit) for metric, limit in sorted(limits.items()))


def request_limits(limits: Mapping[MetricName, float]) -> tuple[MetricLimit, ...]:
    """Those that requests alone can judge: whether a model has an evaluation set is found out in its checks."""
    return tuple(one for one in metric_limits(limits) if one.metric is not MetricName.PERPLEXITY)


def limits_of(spec: ModelDeploymentSpec, given: Sequence[MetricLimit]) -> dict[MetricName, float | None]:
    """The limit of every metric that is shown; None where none is given, or a person switched it off."""
    found = {one.metric: one.limit for one in given}
    if not spec.rollout.checks.evaluation.enabled:
        found.pop(MetricName.PERPLEXITY, None)
    return {metric: found.get(metric) for metric in SHOWN}


def read(
    look: Look,
    state: ColourState,
    attempt: str,
    digest: str,
    limits: Mapping[MetricName, float | None],
    now: datetime,
) -> Coverage:
    """What a look shows of an attempt's ready pods."""
    ready = frozenset(pod.name for pod in state.pods if pod.attempt == attempt and pod.ready)
    readings = read_pods(
        look.samples,
        source=look.source or EvidenceSource.PODS,
        digest=digest,
        limits=limits_on_requests(limits),
        now=now,
        max_age_seconds=MAX_AGE_SECONDS,
    )
    rounds = read_rounds(look.samples, digest=digest, now=now, max_age_seconds=MAX_AGE_SECONDS)
    return Coverage(
        ready=ready,
        rounds=rounds,
        readings=tuple(reading for reading in readings if reading.pod in ready),
        source=look.source,
        query=_query(look.source, digest, ready),
        unavailable=look.problem if not look.samples and look.problem else None,
    )


def _query(source: EvidenceSource | None, digest: str, ready: frozenset[str]) -> str:
    """What shows a person the same series."""
    if source is EvidenceSource.PROMETHEUS:
        return f'{{digest="{digest}",pod=~"{"|".join(sorted(ready))}"}}'
    return "GET /metrics"


def count(
    before: tuple[MetricEvidence, ...],
    coverage: Coverage,
    limits: Mapping[MetricName, float | None],
    now: datetime,
    window_seconds: float,
    settings: Settings,
) -> tuple[tuple[MetricEvidence, ...], AttemptVerdict]:
    """The evidence with one more look, begun where there is none, and what the judge says of it."""
    evidence = before or accumulate.begin(limits_on_requests(limits), coverage.readings, now)
    evidence = accumulate.add(evidence, coverage.readings, now, window_seconds)
    return evidence, judge(limits, evidence, coverage, now, settings)


def _take_base(
    attempt: Attempt, coverage: Coverage, limits: Mapping[MetricName, float | None], now: datetime
) -> Attempt:
    wanted = limits_on_requests(limits)
    complete = bool(coverage.ready) and all(
        any(r.pod == pod and all(limit.metric in r.counts for limit in wanted) for r in coverage.readings)
        for pod in coverage.ready
    )
    if not complete:
        return attempt.with_(held_since=attempt.held_since or now)
    return attempt.with_(evidence=accumulate.begin(wanted, coverage.readings, now), held_since=None)


def _clock(attempt: Attempt, now: datetime, dark: bool, interval_seconds: float) -> Attempt:
    """The soak clock counts seconds with data only: between two looks that both saw the pods.

    After a dark look one that sees again speaks for one interval, no more: the clock pauses in an outage, and metrics
    that come and go slow it down without stopping it for ever. Nor does it run while nobody looked, with the operator
    or the API server away: all that the pods counted meanwhile is one window, and a soak that ended with it would end
    before the judge can decide.
    """
    if dark:
        return attempt.with_(held_since=attempt.held_since or now)
    seconds = attempt.observed_seconds
    since = attempt.last_data_at or attempt.switched_at
    if since is not None:
        passed = max(0.0, (now - since).total_seconds())
        most = max(LATE_SECONDS, LATE_INTERVALS * interval_seconds) if attempt.held_since is None else interval_seconds
        seconds += min(passed, most)
    return attempt.with_(observed_seconds=seconds, last_data_at=now, held_since=None)
