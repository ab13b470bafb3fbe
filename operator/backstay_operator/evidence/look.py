"""One look at the metrics of the judged colour, from Prometheus or from the pods themselves."""

from collections.abc import Callable, Sequence
from datetime import datetime

from backstay_contract.evidence import EvidenceSource
from backstay_contract.names import RuntimeMetric
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.rollout import MetricsSource
from backstay_contract.status import ModelDeploymentStatus, Phase
from backstay_judge import Sample

from backstay_operator.evidence import pods as pods_source
from backstay_operator.evidence import prometheus
from backstay_operator.http import Http, HttpError
from backstay_operator.rollout import watching
from backstay_operator.rollout.observation import Look, Pod

FRESH_SECONDS = 5.0
"""With `Auto`, older samples of Prometheus are passed over for the pods' own: a breach should be seen soon."""
WAITING_SECONDS = 30.0
"""Between two looks while a person's promotion is awaited: only to see that metrics can still be read."""
EARLY = 0.1
"""A pass that comes earlier by this part of the interval looks already: timers are not exact."""


def interval(spec: ModelDeploymentSpec, status: ModelDeploymentStatus) -> float | None:
    """Seconds between two looks in this situation; None where nothing is looked at.

    Before the flip looks take the base that the soak counts from, so they begin once the checks' own requests are over.
    """
    attempt = status.open_attempt
    if attempt is None:
        return _at_rest(spec, status)
    if not attempt.limits:
        return None
    if attempt.switched_at is not None or status.phase is not Phase.AWAITING_PROMOTION:
        return spec.rollout.soak.interval_seconds
    return max(WAITING_SECONDS, spec.rollout.soak.interval_seconds)


def _at_rest(spec: ModelDeploymentSpec, status: ModelDeploymentStatus) -> float | None:
    """The watch of what serves."""
    active = status.active
    if active is None or not watching.limits(spec, status, active.revision):
        return None
    return spec.rollback.watch.interval_seconds


def due_in(
    spec: ModelDeploymentSpec, status: ModelDeploymentStatus, last: datetime | None, now: datetime
) -> float | None:
    """Seconds until the next look; None where nothing is looked at."""
    seconds = interval(spec, status)
    if seconds is None:
        return None
    return 0.0 if last is None else max(0.0, seconds - (now - last).total_seconds())


def is_due(spec: ModelDeploymentSpec, status: ModelDeploymentStatus, last: datetime | None, now: datetime) -> bool:
    """Whether it is time to look, or nearly so.

    Until the flip each pass looks, as it may be the one that flips: what was served before it must not count after it.
    """
    seconds, left = interval(spec, status), due_in(spec, status, last, now)
    if seconds is None or left is None:
        return False
    attempt = status.open_attempt
    may_flip = attempt is not None and attempt.switched_at is None
    return may_flip or left <= seconds * EARLY


async def look(
    http: Http,
    source: MetricsSource,
    prometheus_url: str | None,
    namespace: str,
    judged: Sequence[Pod],
    clock: Callable[[], float],
) -> Look:
    """The counters of the judged pods: those of the attempt that are ready."""
    ready = [pod for pod in judged if pod.ready and not pod.terminating]
    if not ready:
        return Look((), None, "no pod of the attempt is ready")
    if source is MetricsSource.PODS or (source is MetricsSource.AUTO and prometheus_url is None):
        return await _from_pods(http, ready, clock)
    if prometheus_url is None:
        return Look(
            (),
            EvidenceSource.PROMETHEUS,
            "rollout.metrics.source is Prometheus, and the operator was installed without a Prometheus URL",
        )
    asked = await _from_prometheus(http, prometheus_url, namespace, ready)
    if source is MetricsSource.PROMETHEUS or covers(asked.samples, ready, clock()):
        return asked
    own = await _from_pods(http, ready, clock)
    return own if own.samples or not asked.samples else asked


async def _from_prometheus(http: Http, url: str, namespace: str, ready: Sequence[Pod]) -> Look:
    try:
        found = await prometheus.samples(http, url, namespace, [pod.name for pod in ready])
    except HttpError as error:
        return Look((), EvidenceSource.PROMETHEUS, str(error))
    missing = {pod.name for pod in ready} - {sample.labels.get("pod") for sample in found}
    problem = f"Prometheus has no series of {', '.join(sorted(missing))}" if missing else ""
    return Look(found, EvidenceSource.PROMETHEUS, problem)


async def _from_pods(http: Http, ready: Sequence[Pod], clock: Callable[[], float]) -> Look:
    found, problems = await pods_source.samples(http, ready, clock)
    return Look(found, EvidenceSource.PODS, "; ".join(problems)[:500])


def covers(samples: Sequence[Sample], ready: Sequence[Pod], now: float) -> bool:
    """Whether every ready pod has fresh samples in Prometheus."""
    newest: dict[str, float] = {}
    for sample in samples:
        if sample.name == RuntimeMetric.FINISHED:
            pod = sample.labels.get("pod", "")
            newest[pod] = max(sample.timestamp, newest.get(pod, sample.timestamp))
    return all(now - newest.get(pod.name, float("-inf")) <= FRESH_SECONDS for pod in ready)
