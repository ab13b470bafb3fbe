"""The disruption budget of a colour that serves, or that must be there for the way back."""

from typing import Annotated

from backstay_contract import names
from backstay_contract.base import Document
from backstay_contract.names import Label
from backstay_contract.status import Colour, ModelDeploymentStatus
from pydantic import Field, StringConstraints

from backstay_operator.desired.common import Json, Owner, child, pod_selector

SHARE = r"^([1-9]|[1-9][0-9]|100)%$"


class Settings(Document):
    """How the budgets are made."""

    max_unavailable: Annotated[int, Field(ge=1, le=1000)] | Annotated[str, StringConstraints(pattern=SHARE)] = "10%"
    """Pods of a colour that drains may take at the same time. Kubernetes rounds a share up, so that it is at least
    one: a node can always be drained, also under the only pod of a resource."""


def protected(active: Colour | None, status: ModelDeploymentStatus) -> tuple[Colour, ...]:
    """The colours that have a budget: the active one, and the previous one while it still has pods.

    A candidate has none: nobody depends on it yet, and its pods must not hold up a drain.
    """
    previous = status.previous.colour if status.previous is not None else None
    return tuple(colour for colour in Colour if colour in (active, previous))


def budget(owner: Owner, colour: Colour, settings: Settings) -> Json:
    """The PodDisruptionBudget of a colour: the same for any number of replicas, so that scaling writes nothing."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": child(owner, names.deployment(owner.name, colour), labels={Label.COLOUR: str(colour)}),
        "spec": {
            "maxUnavailable": settings.max_unavailable,
            # A pod that is not ready serves nobody; without this a broken pod would hold up a drain for ever.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": pod_selector(owner, colour)},
        },
    }
