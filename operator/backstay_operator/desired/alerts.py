"""Alerts about a resource's pods, for the Prometheus operator.

Each carries the labels by which an Alertmanager's webhook tells the operator whom it is about: namespace,
modeldeployment, and the digest of the model that the pod itself reports.
"""

import json
from collections.abc import Mapping

from backstay_contract.base import Document
from backstay_contract.metric import MetricName
from backstay_contract.names import AlertLabel, RuntimeMetric
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import ModelDeploymentStatus

from backstay_operator.desired.common import Json, Owner, child

DEFAULT_P99_MS = 500.0
"""Where the model has no limit of its own."""
FULL = 0.9
"""Part of a memory from which on it counts as nearly full."""
LEAST_REQUESTS = 100
"""Requests in the window: with fewer, the 99th percentile is only the slowest of them."""
WINDOW = "5m"
QUEUE_WINDOW = "10m"


class Settings(Document):
    """How the rules are made."""

    labels: dict[str, str] = {}
    """Further labels, such as the one by which a Prometheus selects its rules."""
    severity: str = "warning"
    """The alerts' label of that name."""


def limits_of(spec: ModelDeploymentSpec, status: ModelDeploymentStatus) -> Mapping[MetricName, float]:
    """The limits of what serves: those that its attempt was judged by, else the spec's."""
    attempt, active = status.attempt, status.active
    if attempt is not None and active is not None and attempt.revision == active.revision and attempt.limits:
        return {one.metric: one.limit for one in attempt.limits}
    return spec.baselines.limits()


def rule(owner: Owner, limits: Mapping[MetricName, float], settings: Settings) -> Json:
    """The PrometheusRule of a resource."""
    pods = _pods(owner)
    p99_ms = limits.get(MetricName.P99_LATENCY, DEFAULT_P99_MS)
    alerts = [
        _alert(owner, settings, "BackstayModelSlow", _slow(pods, p99_ms), "5m", f"P99 above {p99_ms:g} ms"),
        _alert(owner, settings, "BackstayModelMemoryHigh", _memory(pods), "5m", "memory above 90 % of its limit"),
        _alert(owner, settings, "BackstayModelCacheFull", _cache(pods), QUEUE_WINDOW, "key/value cache above 90 %"),
        _alert(owner, settings, "BackstayModelQueueGrowing", _queue(pods), QUEUE_WINDOW, "the queue keeps growing"),
    ]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": child(owner, owner.name, labels=settings.labels),
        "spec": {"groups": [{"name": f"backstay.{owner.name}", "rules": alerts}]},
    }


def _alert(owner: Owner, settings: Settings, name: str, expression: str, lasting: str, said: str) -> Json:
    return {
        "alert": name,
        "expr": expression,
        "for": lasting,
        "labels": {
            "severity": settings.severity,
            AlertLabel.NAMESPACE: owner.namespace,
            AlertLabel.RESOURCE: owner.name,
        },
        "annotations": {
            "summary": f"ModelDeployment {owner.namespace}/{owner.name}: {said}",
            "description": "Now {{ $value | humanize }}, model {{ $labels.digest }}. "
            f"See: kubectl -n {owner.namespace} describe mdep {owner.name}",
        },
    }


def _pods(owner: Owner) -> str:
    """Label matchers of the resource's pods, however they are scraped. Another resource's name may begin the same."""
    pods = f"{owner.name}-(blue|green)-[a-z0-9]+-[a-z0-9]+"
    return f"namespace={json.dumps(owner.namespace)},pod=~{json.dumps(pods)}"


def _slow(pods: str, p99_ms: float) -> str:
    """At a limit there is a bucket edge, so the comparison is a count and no interpolation."""
    name, limit = RuntimeMetric.REQUEST_SECONDS, f"{p99_ms / 1000:.10g}"
    return (
        f"histogram_quantile(0.99, sum by (le, digest) (rate({name}_bucket{{{pods}}}[{WINDOW}]))) > {limit}"
        f" and on (digest) sum by (digest) (increase({name}_count{{{pods}}}[{WINDOW}])) >= {LEAST_REQUESTS}"
    )


def _memory(pods: str) -> str:
    """What the kernel counts when it decides whom to kill, so it needs cAdvisor and kube-state-metrics."""
    by = "namespace, pod"
    return (
        f'max by ({by}) (container_memory_working_set_bytes{{{pods},container="serve"}})'
        f" / on ({by}) max by ({by})"
        f' (kube_pod_container_resource_limits{{{pods},container="serve",resource="memory"}})'
        f" * on ({by}) group_left (digest) max by ({by}, digest) ({RuntimeMetric.BUILD_INFO}{{{pods}}}) > {FULL}"
    )


def _cache(pods: str) -> str:
    used, whole = RuntimeMetric.KV_USED, RuntimeMetric.KV_TOTAL
    return f"max by (pod, digest) ({used}{{{pods}}} / {whole}{{{pods}}}) > {FULL}"


def _queue(pods: str) -> str:
    waiting = f"{RuntimeMetric.WAITING}{{{pods}}}"
    return f"sum by (digest) (deriv({waiting}[{QUEUE_WINDOW}])) > 0 and on (digest) sum by (digest) ({waiting}) > 0"
