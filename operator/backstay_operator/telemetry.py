"""The operator's own metrics, on :9100/metrics."""

from collections.abc import Iterable

from backstay_contract.evidence import MetricVerdict, VerdictKind
from backstay_contract.status import ModelDeploymentStatus, Phase
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from backstay_operator.kinds import Kind
from backstay_operator.queue import Key

RESOURCE = ("namespace", "name")
CONDITIONS = ("Ready", "Progressing", "Verified", "Degraded", "MetricsAvailable", "Reconciling", "Stalled")
"""The conditions that are shown."""
TRUTHS = {"True": 1, "False": 0, "Unknown": -1}


class Telemetry:
    """Counters and gauges; series of a resource that is gone are dropped."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        to = self.registry
        self.passes = Histogram(
            "backstay_operator_pass_seconds",
            "Duration of one pass over one resource.",
            registry=to,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self.errors = Counter(
            "backstay_operator_pass_errors", "Passes that failed and are tried again.", ("kind",), registry=to
        )
        self.writes = Counter(
            "backstay_operator_api_writes", "Writes sent to the API server.", ("verb", "kind"), registry=to
        )
        self.leader = Gauge("backstay_operator_leader", "1: it acts; 0: it stands by.", registry=to)
        self.waiting = Gauge("backstay_operator_queue_length", "Resources that wait for a pass.", registry=to)
        self.flips = Histogram(
            "backstay_operator_flip_back_seconds",
            "From the newest sample of a breach to the moved selector.",
            registry=to,
            buckets=(0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
        )
        self.notifications = Counter(
            "backstay_notifications", "Tries to notify: sent, failed (tried again), given_up.", ("sink", "outcome"),
            registry=to,
        )  # fmt: skip
        self.alerts = Counter(
            "backstay_alerts", "Alerts that Alertmanager sent, by what became of them.", ("outcome",), registry=to
        )
        self.attempts = Counter("backstay_attempts", "Attempts that ended.", ("outcome",), registry=to)
        self.phase = Gauge("backstay_phase", "1 for the resource's present phase.", (*RESOURCE, "phase"), registry=to)
        self.ready = Gauge("backstay_ready_replicas", "Ready pods of the active colour.", RESOURCE, registry=to)
        self.degraded = Gauge(
            "backstay_degraded", "1 while answers of the active colour are cut.", RESOURCE, registry=to
        )
        self.condition = Gauge(
            "backstay_condition", "1: True; 0: False; -1: unknown, or not there.", (*RESOURCE, "condition"), registry=to
        )
        by_metric = (*RESOURCE, "metric")
        self.value = Gauge("backstay_metric_value", "The judged estimate.", by_metric, registry=to)
        self.limit = Gauge("backstay_metric_limit", "The limit, in the metric's unit.", by_metric, registry=to)
        self.samples = Gauge("backstay_metric_samples", "Requests that were judged.", by_metric, registry=to)
        self.evalue = Gauge("backstay_metric_evalue", "log10 of the e-value against it.", by_metric, registry=to)
        self.verdict = Gauge(
            "backstay_metric_verdict", "1 for the present verdict.", (*by_metric, "verdict"), registry=to
        )

    @property
    def described(self) -> list[MetricWrapperBase]:
        """All of them, in the order in which they are made."""
        return [one for one in vars(self).values() if isinstance(one, MetricWrapperBase)]

    def wrote(self, verb: str, kind: Kind) -> None:
        self.writes.labels(verb, kind.name).inc()

    def alerted(self, outcome: str, count: int) -> None:
        self.alerts.labels(outcome).inc(count)

    def notified(self, sink: str, outcome: str) -> None:
        self.notifications.labels(sink, outcome).inc()

    def show(self, key: Key, before: ModelDeploymentStatus, now: ModelDeploymentStatus) -> None:
        """A resource's present status, and what it counts towards."""
        for phase in Phase:
            self.phase.labels(*key, phase).set(phase is now.phase)
        self.ready.labels(*key).set(now.ready_replicas)
        cut, active = now.degraded, now.active
        self.degraded.labels(*key).set(cut is not None and active is not None and cut.revision == active.revision)
        truths = {condition.type: TRUTHS[condition.status] for condition in now.conditions}
        for type_ in CONDITIONS:
            self.condition.labels(*key, type_).set(truths.get(type_, TRUTHS["Unknown"]))
        for verdict in now.verdicts:
            self._show_verdict(key, verdict)
        for metric in {one.metric for one in before.verdicts} - {one.metric for one in now.verdicts}:
            self._drop(self._by_metric, zip((*RESOURCE, "metric"), (*key, str(metric)), strict=True))
        attempt = now.attempt
        if attempt is None or attempt.ended_at is None:
            return
        if before.attempt is None or before.attempt.id != attempt.id or before.attempt.ended_at is None:
            self.attempts.labels(attempt.outcome or "unknown").inc()

    def _show_verdict(self, key: Key, verdict: MetricVerdict) -> None:
        at = (*key, str(verdict.metric))
        for gauge, value in (
            (self.value, verdict.estimate),
            (self.limit, verdict.limit),
            (self.samples, verdict.n),
            (self.evalue, verdict.e_value),
        ):
            if value is not None:
                gauge.labels(*at).set(value)
            else:
                self._drop((gauge,), zip((*RESOURCE, "metric"), at, strict=True))
        for kind in VerdictKind:
            self.verdict.labels(*at, kind).set(kind is verdict.verdict)

    def forget(self, key: Key) -> None:
        """The resource is gone: its series end."""
        by_resource = (self.phase, self.ready, self.degraded, self.condition)
        self._drop((*by_resource, *self._by_metric), zip(RESOURCE, key, strict=True))

    @property
    def _by_metric(self) -> tuple[Gauge, ...]:
        return self.value, self.limit, self.samples, self.evalue, self.verdict

    def _drop(self, gauges: Iterable[Gauge], labels: Iterable[tuple[str, str]]) -> None:
        wanted = dict(labels)
        for gauge in gauges:
            gauge.remove_by_labels(wanted)


def reference() -> str:
    """The page of the operator's metrics, in Markdown."""
    lines = [
        "<!-- Generated by `make generate`. Do not edit. -->",
        "# The operator's metrics",
        "",
        "On `:9100/metrics`. Only the operator that leads shows the resources; series of a resource that is gone end.",
        "",
        "| metric | type | labels | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for one in Telemetry().described:
        ((family,), labels) = one.describe(), ", ".join(f"`{label}`" for label in one._labelnames)
        name = f"{family.name}_total" if family.type == "counter" else family.name
        lines.append(f"| `{name}` | {family.type} | {labels} | {family.documentation} |")
    return "\n".join(lines) + "\n"
