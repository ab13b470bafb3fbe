"""The status: applied once per pass by one writer, and only where it is different from the stored one."""

from typing import Any

from backstay_operator import kinds
from backstay_operator.client import Client
from backstay_operator.resource import Resource

Json = dict[str, Any]


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
    stored = await client.apply(kind, body, subresource="status")
    await _take_away(client, stored, status)
    return True


async def _take_away(client: Client, stored: Json, status: Json) -> None:
    """Removes what others wrote into the status and we do not: applying leaves it, as it is not ours."""
    foreign = operations(stored.get("status"), status)
    if not foreign:
        return
    metadata = stored["metadata"]
    same = {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}
    patch, name = [same, *foreign], metadata["name"]
    await client.json_patch(kinds.MODEL_DEPLOYMENT, metadata["namespace"], name, patch, subresource="status")
