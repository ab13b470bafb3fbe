"""Nodes and what the pods on them ask for: read only while a candidate is wanted and nothing was made for it yet."""

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from backstay_contract import names, quantity
from backstay_contract.names import Label
from backstay_contract.status import Colour

from backstay_operator import kinds
from backstay_operator.client import ApiError, Client
from backstay_operator.desired.common import Owner
from backstay_operator.observe.children import colour_of
from backstay_operator.rollout.capacity.nodes import Amounts, Node, Nodes, Taint

Json = Mapping[str, Any]
ON_NODES = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of the pods that hold something on a node."""
PODS = "pods"
SECONDS = 20.0
"""For all pages together: a very large cluster must not hold up the pass."""


async def read(client: Client, owner: Owner) -> Nodes:
    """The cluster's nodes, or why they cannot be read: then only the scheduler says where there is room.

    Both are read in pages, and of each pod only its sum is kept: a cluster may have very many.
    """
    try:
        async with asyncio.timeout(SECONDS):
            return Nodes(await _read(client, owner))
    except ApiError as error:
        return Nodes(problem=str(error))
    except TimeoutError:
        return Nodes(problem=f"nodes and pods could not be read within {SECONDS:g} s")


async def _read(client: Client, owner: Owner) -> tuple[Node, ...]:
    taken: dict[str, dict[str, Decimal]] = {}
    held: dict[str, dict[Colour, dict[str, Decimal]]] = {}
    async for page in client.pages(kinds.POD, ON_NODES):
        for pod in page:
            where, asked = str(pod["spec"].get("nodeName", "")), requests_of(pod)
            add(taken.setdefault(where, {}), asked)
            colour = _own_colour(pod, owner)
            if colour is not None:
                add(held.setdefault(where, {}).setdefault(colour, {}), asked)
    return tuple([node_of(node, taken, held) async for page in client.pages(kinds.NODE) for node in page])


def node_of(
    node: Json, taken: Mapping[str, Amounts], held: Mapping[str, Mapping[Colour, Amounts]] | None = None
) -> Node:
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
        held=(held or {}).get(name, {}),
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


def _own_colour(pod: Json, owner: Owner) -> Colour | None:
    labels = pod["metadata"].get("labels") or {}
    mine = (labels.get(Label.RESOURCE), labels.get(Label.MANAGED_BY)) == (owner.name, names.MANAGED_BY)
    if not mine or pod["metadata"].get("namespace") != owner.namespace:
        return None
    return colour_of(dict(pod))
