"""Nodes and what the pods on them ask for, as the API server tells them. Pure."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from backstay_contract import names, quantity
from backstay_contract.names import Label
from backstay_contract.status import Colour

from backstay_operator.observe.children import colour_of
from backstay_operator.queue import Key
from backstay_operator.rollout.capacity.nodes import Amounts, Node, Taint

Json = Mapping[str, Any]
PODS = "pods"


def node_of(node: Json, taken: Mapping[str, Amounts]) -> Node:
    """One node, with what is taken of it."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    conditions = status.get("conditions") or ()
    reports = any((c.get("type"), c.get("status")) == ("Ready", "True") for c in conditions)
    name = str(metadata["name"])
    return Node(
        name=name,
        labels=metadata.get("labels") or {},
        taints=tuple(
            Taint(str(t.get("key", "")), str(t.get("value") or ""), str(t.get("effect", "")))
            for t in spec.get("taints") or ()
        ),
        ready=reports and not spec.get("unschedulable") and "deletionTimestamp" not in metadata,
        has=amounts(status.get("allocatable") or {}),
        taken=taken.get(name, {}),
    )


def requests_of(pod: Json) -> Amounts:
    """What the scheduler reckons for the pod, as Kubernetes itself adds it up.

    All containers together, or the most that one init container needs beside those sidecars that started before it.
    """
    spec: Json = pod["spec"]
    running: dict[str, Decimal] = {}
    for container in spec.get("containers") or ():
        add(running, _asked(container))
    sidecars: dict[str, Decimal] = {}
    starting: dict[str, Decimal] = {}
    for container in spec.get("initContainers") or ():
        own = dict(_asked(container))
        if container.get("restartPolicy") == "Always":
            add(running, own)
            add(sidecars, own)
            own = dict(sidecars)
        else:
            add(own, sidecars)
        starting = _most(starting, own)
    total = _most(running, starting) | dict(_asked(spec))  # resources of the pod as a whole go before the containers'
    add(total, amounts(spec.get("overhead") or {}))
    return {**total, PODS: Decimal(1)}


def _asked(container: Json) -> Amounts:
    """Requests; where there is only a limit, the API server makes it the request."""
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def amounts(texts: Mapping[str, Any]) -> dict[str, Decimal]:
    """Amounts by resource; one that cannot be read counts as nothing."""
    found = {}
    for name, text in texts.items():
        try:
            found[name] = quantity.parse(str(text))
        except ValueError:
            continue
    return found


def add(to: dict[str, Decimal], more: Amounts) -> None:
    for name, amount in more.items():
        to[name] = to.get(name, Decimal(0)) + amount


def _most(left: Amounts, right: Amounts) -> dict[str, Decimal]:
    return {name: max(left.get(name, Decimal(0)), right.get(name, Decimal(0))) for name in {*left, *right}}


def owner_of(pod: Json) -> tuple[Key, Colour] | None:
    """The resource and the colour that the pod belongs to; None for everybody else's."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    colour = colour_of(dict(pod))
    if colour is None or labels.get(Label.MANAGED_BY) != names.MANAGED_BY or not labels.get(Label.RESOURCE):
        return None
    return Key(metadata["namespace"], labels[Label.RESOURCE]), colour
