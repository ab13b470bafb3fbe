"""Everything of one resource that the API server holds, read in parallel."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backstay_contract import names
from backstay_contract.names import Label
from backstay_contract.status import Colour

from backstay_operator import kinds
from backstay_operator.client import Client
from backstay_operator.desired.common import Owner

Json = dict[str, Any]
SERVICE_NAME = "kubernetes.io/service-name"
"""Label of an EndpointSlice: the Service it belongs to."""


@dataclass(frozen=True)
class Children:
    """The children as the API server's JSON."""

    deployments: Mapping[Colour, Json] = field(default_factory=dict)
    pods: Mapping[Colour, Sequence[Json]] = field(default_factory=dict)
    active: Json | None = None
    """The Service NAME."""
    preview: Json | None = None
    slices: Sequence[Json] = ()
    """EndpointSlices of the Service NAME."""


async def read(client: Client, owner: Owner) -> Children:
    """The children of a resource. Objects of the same names that belong to somebody else are not its children."""
    mine = {Label.RESOURCE: owner.name, Label.MANAGED_BY: names.MANAGED_BY}
    deployments, pods, services, slices = await asyncio.gather(
        client.list_all(kinds.DEPLOYMENT, owner.namespace, mine),
        client.list_all(kinds.POD, owner.namespace, mine),
        client.list_all(kinds.SERVICE, owner.namespace, mine),
        client.list_all(kinds.ENDPOINT_SLICE, owner.namespace, {SERVICE_NAME: owner.name}),
    )
    named = {service["metadata"]["name"]: service for service in services if owned(service, owner)}
    return Children(
        deployments={
            colour: deployment
            for deployment in deployments
            if owned(deployment, owner) and (colour := colour_of(deployment)) is not None
        },
        pods={colour: [pod for pod in pods if colour_of(pod) is colour] for colour in Colour},
        active=named.get(owner.name),
        preview=named.get(names.preview(owner.name)),
        slices=slices,
    )


def owned(child: Json, owner: Owner) -> bool:
    """Whether the resource of that very uid controls the object."""
    references = child["metadata"].get("ownerReferences") or ()
    return any(reference.get("uid") == owner.uid for reference in references)


def colour_of(child: Json) -> Colour | None:
    """The colour in an object's labels."""
    value = (child["metadata"].get("labels") or {}).get(Label.COLOUR)
    return Colour(value) if value in set(Colour) else None
