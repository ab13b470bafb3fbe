"""The two Services: NAME for the active colour, NAME-preview for the candidate."""

from backstay_contract import names
from backstay_contract.names import Label, Port
from backstay_contract.status import NO_COLOUR, Colour

from backstay_operator.desired.common import Json, Owner, child, pod_selector


def active(owner: Owner) -> Json:
    """The Service NAME as it is created: it selects nothing until the first flip, and only a flip changes that."""
    return _service(owner, owner.name, "active")


def preview(owner: Owner) -> Json:
    """The Service NAME-preview as it is created: at rest it selects nothing, so it can never show the active colour."""
    return _service(owner, names.preview(owner.name), "preview")


def _service(owner: Owner, name: str, component: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child(owner, name, labels={Label.COMPONENT: component}),
        "spec": {
            "type": "ClusterIP",
            "selector": pod_selector(owner, NO_COLOUR),
            "ports": [
                {
                    "name": Port.HTTP_NAME,
                    "port": Port.SERVICE,
                    "targetPort": Port.HTTP_NAME,
                    "protocol": "TCP",
                },
                {
                    "name": Port.GRPC_NAME,
                    "port": Port.GRPC,
                    "targetPort": Port.GRPC_NAME,
                    "protocol": "TCP",
                },
            ],
        },
    }


def selected(service: Json) -> Colour | None:
    """The colour that a live Service selects; None for `none` and for anything that is no colour."""
    value = (service.get("spec", {}).get("selector") or {}).get(Label.COLOUR)
    return Colour(value) if value in set(Colour) else None
