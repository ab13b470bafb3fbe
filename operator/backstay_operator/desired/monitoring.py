"""How the Prometheus operator's Prometheus finds the pods."""

from typing import Annotated

from backstay_contract.base import Document
from backstay_contract.names import Port
from pydantic import StringConstraints

from backstay_operator.desired.common import Json, Owner, child, pods_selector

DURATION = r"^[1-9][0-9]*(ms|s|m|h)$"


class Settings(Document):
    """How the monitors are made."""

    interval: Annotated[str, StringConstraints(pattern=DURATION)] = "5s"
    """Time between two scrapes: a breach is seen no sooner."""
    labels: dict[str, str] = {}
    """Further labels, such as the one by which a Prometheus selects its monitors."""


def pod_monitor(owner: Owner, settings: Settings) -> Json:
    """The PodMonitor of both colours' pods.

    Not a ServiceMonitor: each Service selects one colour only, and the evidence is read pod by pod.
    """
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": child(owner, owner.name, labels=settings.labels),
        "spec": {
            "selector": {"matchLabels": pods_selector(owner)},
            "podMetricsEndpoints": [
                {
                    "port": Port.HTTP_NAME,
                    "path": "/metrics",
                    "interval": settings.interval,
                    "relabelings": [
                        _label("backstay_dev_modeldeployment", "modeldeployment"),
                        _label("backstay_dev_colour", "colour"),
                    ],
                }
            ],
        },
    }


def _label(pod_label: str, target: str) -> Json:
    return {"sourceLabels": [f"__meta_kubernetes_pod_label_{pod_label}"], "targetLabel": target, "action": "replace"}
