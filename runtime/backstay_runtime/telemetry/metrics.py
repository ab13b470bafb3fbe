"""The Prometheus series of one serving process. Every series exists, at 0, from the start."""

from collections.abc import Iterable, Mapping, Sequence

from backstay_contract.edges import bucket_edges
from backstay_contract.metric import MetricName
from backstay_contract.mode import Mode
from backstay_contract.names import Outcome, RuntimeMetric, format_limit
from backstay_contract.output import OutputRule
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector, exposition

from backstay_runtime.identity import Identity
from backstay_runtime.startup import Step
from backstay_runtime.telemetry import evidence
from backstay_runtime.telemetry.evaluation import EvaluationCollector

OUTCOMES = (Outcome.OK, Outcome.ERROR, Outcome.CANCELLED, Outcome.REJECTED)
CONTENT_TYPE = exposition.CONTENT_TYPE_PLAIN_0_0_4
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters, gauges and histograms, labelled with the model, its version and its digest."""

    def __init__(self, identity: Identity, limits: Mapping[MetricName, float], runtime_version: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # its start time tells readers that counters began anew
        self.limits = {metric: limits[metric] for metric in evidence.JUDGED if metric in limits}
        self._who = {"model": identity.name, "version": identity.version, "digest": identity.digest}
        names = RuntimeMetric
        self._judged = self._counter(names.JUDGED, "Requests that count as evidence for a metric.", "metric")
        self._slow = self._counter(names.SLOW, "Those of them beyond the metric's limit.", "metric", "limit")
        self._finished = self._counter(names.FINISHED, "Requests that ended, by outcome.", "outcome")
        for metric, limit in self.limits.items():
            self._judged.labels(**self._who, metric=metric)
            self._slow.labels(**self._who, metric=metric, limit=format_limit(limit))
        for outcome in OUTCOMES:
            self._finished.labels(**self._who, outcome=outcome)
        latency, ttft, gap = (
            evidence.seconds(limits, metric)
            for metric in (MetricName.P99_LATENCY, MetricName.TTFT_P99, MetricName.INTER_TOKEN_P99)
        )
        self.request_seconds = self._histogram(names.REQUEST_SECONDS, "From arrival to the last byte.", latency)
        self.ttft_seconds = self._histogram(names.TTFT_SECONDS, "From arrival to the first token.", ttft)
        self.inter_token_seconds = self._histogram(names.INTER_TOKEN_SECONDS, "Between a choice's tokens.", gap)
        self.queue_seconds = self._histogram(names.QUEUE_SECONDS, "From arrival to the first step.", [])
        self.prefill_seconds = self._histogram(names.PREFILL_SECONDS, "From the first step to the first token.", [])
        self.decode_seconds = self._histogram(names.DECODE_SECONDS, "From the first token to the last.", [])
        self.tokens_in = self._counter(names.TOKENS_IN, "Prompt tokens.").labels(**self._who)
        self.tokens_out = self._counter(names.TOKENS_OUT, "Generated tokens.").labels(**self._who)
        self.preemptions = self._counter(names.PREEMPTIONS, "Sequences put back for lack of blocks.").labels(
            **self._who
        )
        self.in_flight = self._gauge(names.IN_FLIGHT, "Requests that are being answered.")
        self.running = self._gauge(names.RUNNING, "Sequences that take part in steps.")
        self.waiting = self._gauge(names.WAITING, "Sequences in the queue.")
        self.kv_used = self._gauge(names.KV_USED, "Blocks of the key/value cache in use.")
        self.kv_total = self._gauge(names.KV_TOTAL, "Blocks of the key/value cache.")
        self._rules = self._counter(names.OUTPUT_RULES, "Answers that broke an output rule.", "rule", "fallback")
        self.prefix_tokens = self._counter(names.PREFIX_TOKENS, "Prompt tokens looked for in the cache.").labels(
            **self._who
        )
        self.prefix_hits = self._counter(names.PREFIX_HITS, "Those of them that were found.").labels(**self._who)
        self.admitted = self._gauge(names.ADMITTED, "Sequences that may run or wait at present.")
        self.load_seconds = self._gauge(names.LOAD_SECONDS, "Time that loading the model took.")
        self._start = self._labelled_gauge(names.START_SECONDS, "Time that each step of the start took.", "step")
        self.set_start_seconds(dict.fromkeys(Step, 0.0))
        batch = Histogram(
            names.BATCH_SIZE, "Sequences in a step.", [*self._who], registry=self.registry, buckets=_BATCHES
        )
        self.batch_size = batch.labels(**self._who)
        self.evaluation = EvaluationCollector(self._who)
        self.registry.register(self.evaluation)
        self._mode = self._labelled_gauge(names.MODE, "1 for the present mode.", "mode")
        self.set_mode(Mode.NORMAL)
        build = self._labelled_gauge(names.BUILD_INFO, "The runtime's version.", "runtime")
        build.labels(**self._who, runtime=runtime_version).set(1)

    def set_start_seconds(self, seconds: Mapping[Step, float]) -> None:
        """How long steps of the start took."""
        for step, one in seconds.items():
            self._start.labels(**self._who, step=step).set(one)

    def set_mode(self, mode: Mode) -> None:
        """The present mode."""
        for one in Mode:
            self._mode.labels(**self._who, mode=one).set(one == mode)

    def count_judged(self, metric: MetricName, *, slow: bool) -> None:
        """One request's evidence for a metric with a limit."""
        self._judged.labels(**self._who, metric=metric).inc()
        if slow:
            self._slow.labels(**self._who, metric=metric, limit=format_limit(self.limits[metric])).inc()

    def count_finished(self, outcome: str) -> None:
        """One request's end; one of OUTCOMES."""
        self._finished.labels(**self._who, outcome=outcome).inc()

    def show_rules(self, rules: Sequence[OutputRule]) -> None:
        """The rules that answers are held against: each has a series from now on."""
        for rule in rules:
            self._rules.labels(**self._who, rule=rule.rule, fallback=rule.fallback)

    def count_rule(self, rule: OutputRule) -> None:
        """An answer broke it."""
        self._rules.labels(**self._who, rule=rule.rule, fallback=rule.fallback).inc()

    def exposition(self) -> bytes:
        """The text that Prometheus scrapes."""
        return exposition.generate_latest(self.registry)

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(name, says, [*self._who, *labels], registry=self.registry)

    def _labelled_gauge(self, name: str, says: str, *labels: str) -> Gauge:
        return Gauge(name, says, [*self._who, *labels], registry=self.registry)

    def _gauge(self, name: str, says: str) -> Gauge:
        return self._labelled_gauge(name, says).labels(**self._who)

    def _histogram(self, name: str, says: str, limits: Sequence[float]) -> Histogram:
        histogram = Histogram(name, says, [*self._who], registry=self.registry, buckets=bucket_edges(limits))
        return histogram.labels(**self._who)


class _Together:
    """The series of several models: each family once, each series once."""

    def __init__(self, several: Sequence[Metrics]) -> None:
        self._several = several

    def collect(self) -> Iterable[Metric]:
        """As a registry does."""
        families: dict[str, Metric] = {}
        for family in (family for one in self._several for family in one.registry.collect()):
            known = families.setdefault(family.name, family)
            if known is not family:
                there = {(sample.name, tuple(sorted(sample.labels.items()))) for sample in known.samples}
                new = [one for one in family.samples if (one.name, tuple(sorted(one.labels.items()))) not in there]
                known.samples.extend(new)
        return families.values()


def together(several: Sequence[Metrics]) -> bytes:
    """The text of several models' series."""
    return exposition.generate_latest(_Together(several))
