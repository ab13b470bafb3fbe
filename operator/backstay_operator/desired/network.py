"""Who may reach a resource's pods. Only what comes in: what goes out cannot be said soundly, see docs/decisions."""

from typing import Annotated, Any

from backstay_contract.base import Document
from backstay_contract.names import Port
from pydantic import Field

from backstay_operator.desired.common import Json, Owner, child, pods_selector

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label that Kubernetes itself puts on every namespace."""

Peer = dict[str, Any]
"""A NetworkPolicyPeer as Kubernetes writes it."""


class Operator(Document):
    """Where the operator's own pods are."""

    namespace: str
    labels: Annotated[dict[str, str], Field(min_length=1)]


class Settings(Document):
    """How the policies are made."""

    operator: Operator
    clients: Annotated[tuple[Peer, ...], Field(max_length=64)] = ({"namespaceSelector": {}},)
    """Who may call the model and scrape its metrics; all pods of the cluster if not given, everybody if empty."""


def policy(owner: Owner, settings: Settings) -> Json:
    """The NetworkPolicy of the pods of both colours. It restricts what comes in and leaves alone what goes out."""
    operator: Peer = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: settings.operator.namespace}},
        "podSelector": {"matchLabels": settings.operator.labels},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": child(owner, owner.name, labels={}),
        "spec": {
            "podSelector": {"matchLabels": pods_selector(owner)},
            "policyTypes": ["Ingress"],
            "ingress": [_to_model(operator, settings.clients), _to((Port.CONTROL,), [operator])],
        },
    }


def _to_model(operator: Peer, clients: tuple[Peer, ...]) -> Json:
    """The operator is named beside the clients: it makes the smoke inference and reads the metrics."""
    return _to((Port.HTTP, Port.GRPC), [*clients, operator] if clients else [])


def _to(ports: tuple[int, ...], peers: list[Peer]) -> Json:
    body: Json = {"ports": [{"protocol": "TCP", "port": port} for port in ports]}
    # The API server drops an empty list; written out, it would look different at every pass.
    return body | ({"from": peers} if peers else {})
