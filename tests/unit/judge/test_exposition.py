"""From the text that a real metrics library writes to a verdict, for every metric that is judged on requests."""

from collections.abc import Iterator

import pytest
from backstay_contract.edges import bucket_edges
from backstay_contract.evidence import EvidenceSource, VerdictKind
from backstay_contract.metric import MetricName
from backstay_contract.names import Outcome, RuntimeMetric, format_limit
from backstay_judge import Coverage, Limit, Sample, Settings, add, begin, judge, limit_on_requests, read_pods
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from .build import DIGEST, INTERVAL, P99, at

LIMITS = {
    P99: 840.0,
    MetricName.TTFT_P99: 200.0,
    MetricName.INTER_TOKEN_P99: 1 / 3,
    MetricName.ERROR_RATE: 0.01,
    MetricName.TOKENS_PER_SECOND: 21.7,
}
WHO = {"model": "chat", "version": "1.2.0", "digest": f"sha256:{DIGEST}"}


class Server:
    """A serving process's registry, with the series that the runtime exports."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.judged = Counter(RuntimeMetric.JUDGED, "-", [*WHO, "metric"], registry=self.registry)
        self.slow = Counter(RuntimeMetric.SLOW, "-", [*WHO, "metric", "limit"], registry=self.registry)
        self.finished = Counter(RuntimeMetric.FINISHED, "-", [*WHO, "outcome"], registry=self.registry)
        edges = bucket_edges([LIMITS[P99] / 1000])
        self.seconds = Histogram(RuntimeMetric.REQUEST_SECONDS, "-", [*WHO], buckets=edges, registry=self.registry)
        for metric in self.metrics():
            self.serve(metric, 0, 0)
        self.finish(0, 0)

    @staticmethod
    def metrics() -> Iterator[MetricName]:
        return (metric for metric in LIMITS if metric is not MetricName.ERROR_RATE)

    def serve(self, metric: MetricName, n: int, k: int) -> None:
        self.judged.labels(**WHO, metric=metric).inc(n)
        self.slow.labels(**WHO, metric=metric, limit=format_limit(LIMITS[metric])).inc(k)

    def finish(self, ok: int, errors: int) -> None:
        self.finished.labels(**WHO, outcome=Outcome.OK).inc(ok)
        self.finished.labels(**WHO, outcome=Outcome.ERROR).inc(errors)

    def scrape(self, pod: str, seconds: float) -> list[Sample]:
        families = text_string_to_metric_families(generate_latest(self.registry).decode())
        return [
            Sample(sample.name, {**sample.labels, "pod": pod}, sample.value, at(seconds).timestamp())
            for family in families
            for sample in family.samples
        ]


def verdicts(metric: MetricName, n: int, k: int) -> dict[MetricName, VerdictKind]:
    """The verdicts of a soak in which two pods serve n requests per window, k beyond the one metric's limit."""
    servers = {"a": Server(), "b": Server()}
    limits = tuple(limit_on_requests(one, value) for one, value in LIMITS.items())

    def look(seconds: float, of: tuple[Limit, ...] = limits) -> Coverage:
        samples = [sample for pod, server in servers.items() for sample in server.scrape(pod, seconds)]
        readings = read_pods(
            samples, source=EvidenceSource.PODS, digest=DIGEST, limits=of, now=at(seconds), max_age_seconds=2
        )
        return Coverage(ready=frozenset(servers), readings=readings, source=EvidenceSource.PODS)

    for server in servers.values():
        # The checks before the flip are slow and fail; they must not count.
        server.finish(1, 9)
        for one in Server.metrics():
            server.serve(one, 9, 9)
    evidence = begin(limits, look(0).readings, at(0))
    for second in range(1, 5):
        for server in servers.values():
            server.finish(n - k, k) if metric is MetricName.ERROR_RATE else server.finish(n, 0)
            for one in Server.metrics():
                server.serve(one, n, k if one is metric else 0)
        coverage = look(second)
        evidence = add(evidence, coverage.readings, at(second), INTERVAL)
    found = judge(LIMITS, evidence, coverage, at(4), Settings())
    assert all(one.n == 8 * n for one in found.metrics)
    return {one.metric: one.verdict for one in found.metrics}


@pytest.mark.parametrize("metric", list(LIMITS))
def test_what_is_beyond_one_metrics_limit_breaches_that_metric_and_no_other(metric: MetricName) -> None:
    found = verdicts(metric, 100, 20)
    assert found == {one: VerdictKind.BREACH if one is metric else VerdictKind.PASS for one in LIMITS}


@pytest.mark.parametrize("metric", list(LIMITS))
def test_what_is_within_every_limit_passes_on_every_metric(metric: MetricName) -> None:
    assert set(verdicts(metric, 100, 0).values()) == {VerdictKind.PASS}


def test_the_histogram_of_the_runtime_has_an_edge_at_the_limit() -> None:
    server = Server()
    for seconds in (0.1, 0.84, 0.8401, 5.0, 1000.0):
        server.seconds.labels(**WHO).observe(seconds)
    samples = [sample for sample in server.scrape("a", 0) if not sample.name.startswith(RuntimeMetric.SLOW)]
    (found,) = read_pods(
        samples,
        source=EvidenceSource.PODS,
        digest=DIGEST,
        limits=[limit_on_requests(P99, LIMITS[P99])],
        now=at(0),
        max_age_seconds=2,
    )
    counts = found.counts[P99]
    assert (counts.judged, counts.beyond, counts.beyond_at_most) == (5, 3, 3)
    assert counts.basis == "buckets 0.84 0.84"
