"""The status: applied once per pass by one writer, and only where it is different from the stored one."""

import logging
from typing import Any

from backstay_operator import kinds
from backstay_operator.client import ApiError, Client
from backstay_operator.resource import Resource

log = logging.getLogger(__name__)

Json = dict[str, Any]
UNDECLARED = "field not declared in schema"
"""What the API server says of an applied field that the CRD does not know."""


def operations(old: Json | None, new: Json) -> list[Json]:
    """The JSON patch (RFC 6902) from the stored status to the new one, field by field; empty if they are equal."""
    if old is None:
        return [{"op": "add", "path": "/status", "value": new}]
    removed = [{"op": "remove", "path": f"/status/{key}"} for key in sorted(old.keys() - new.keys())]
    set_ = [
        {"op": "add", "path": f"/status/{key}", "value": value}
        for key, value in new.items()
        if key not in old or old[key] != value
    ]
    return [*removed, *set_]


async def write(client: Client, resource: Resource, status: Json) -> bool:
    """Makes the stored status to this one; False where it is so already.

    Raises ApiError with `conflict` where the resource is not the one that was read any more: another of its name, or
    changed since. Its uid would be no precondition, since the API server ignores it in a write of a status.
    """
    if not operations(resource.body.get("status"), status):
        return False
    metadata = resource.body["metadata"]
    precondition = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion")}
    kind = kinds.MODEL_DEPLOYMENT
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": precondition, "status": status}
    try:
        stored = await client.apply(kind, body, subresource="status")
    except ApiError as error:
        if UNDECLARED not in error.message:
            raise
        log.warning("the installed CRD is older than this operator, update it; left out of a status: %s", error.message)
        stored = resource.body
    await _patch(client, stored, operations(stored.get("status"), status))
    return True


async def _patch(client: Client, stored: Json, changes: list[Json]) -> None:
    """Removes what others wrote into the status and we do not: applying leaves it, as it is not ours. And writes what
    an older CRD knows: of a patch the API server drops the rest."""
    if not changes:
        return
    metadata = stored["metadata"]
    same = {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}
    namespace, name = metadata["namespace"], metadata["name"]
    await client.json_patch(kinds.MODEL_DEPLOYMENT, namespace, name, [same, *changes], subresource="status")
