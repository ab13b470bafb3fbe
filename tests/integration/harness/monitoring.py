"""The kinds of the Prometheus operator, as far as the tests need them: strict in the fields that Backstay writes."""

from typing import Any

GROUP = "monitoring.coreos.com"

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
TEXTS: Json = {"type": "object", "additionalProperties": TEXT}


def _object(required: tuple[str, ...] = (), **properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


SELECTOR = _object(matchLabels=TEXTS)
RELABELING = _object(sourceLabels=_list(TEXT), targetLabel=TEXT, action={**TEXT, "enum": ["replace", "keep", "drop"]})
ENDPOINT = _object(
    port=TEXT,
    path=TEXT,
    interval={**TEXT, "pattern": r"^(0|(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"},
    honorLabels={"type": "boolean"},
    relabelings=_list(RELABELING),
)
RULE = _object(("expr",), alert=TEXT, expr=TEXT, labels=TEXTS, annotations=TEXTS, **{"for": TEXT})
SPECS: dict[str, Json] = {
    "PodMonitor": _object(("selector", "podMetricsEndpoints"), selector=SELECTOR, podMetricsEndpoints=_list(ENDPOINT)),
    "ServiceMonitor": _object(("selector", "endpoints"), selector=SELECTOR, endpoints=_list(ENDPOINT)),
    "PrometheusRule": _object(groups=_list(_object(("name",), name=TEXT, rules=_list(RULE)))),
}


def name(kind: str) -> str:
    """The name of a kind's CustomResourceDefinition."""
    return f"{kind.lower()}s.{GROUP}"


def definition(kind: str) -> Json:
    """The CustomResourceDefinition of one kind."""
    plural = f"{kind.lower()}s"
    schema = _object(apiVersion=TEXT, kind=TEXT, metadata={"type": "object"}, spec=SPECS[kind])
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name(kind)},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }
