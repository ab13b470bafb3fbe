"""Alerts as Alertmanager sends them."""

import json
from typing import Any

Json = dict[str, Any]
DIGEST = "sha256:" + "ab" * 32
LABELS = {"alertname": "ModelSlow", "namespace": "prod", "modeldeployment": "chat", "digest": DIGEST}


def alert(status: str = "firing", fingerprint: str = "f00d", **labels: Any) -> Json:
    kept = {key: value for key, value in (LABELS | labels).items() if value is not None}
    return {
        "status": status,
        "labels": kept,
        "annotations": {"summary": "P99 is above 500 ms"},
        "startsAt": "2026-01-01T12:00:00.123Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": fingerprint,
    }


def body(*alerts: Json, **fields: Any) -> bytes:
    """The whole of a real request, with what the operator does not need."""
    return json.dumps(
        {
            "version": "4",
            "groupKey": '{}:{alertname="ModelSlow"}',
            "truncatedAlerts": 0,
            "status": "firing",
            "receiver": "backstay",
            "groupLabels": {},
            "commonLabels": {},
            "commonAnnotations": {},
            "externalURL": "http://alertmanager",
            "alerts": list(alerts),
        }
        | fields
    ).encode()
