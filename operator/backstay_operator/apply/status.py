"""The status: written once per pass, and only where it is different from the stored one."""

from typing import Any

from backstay_operator import kinds
from backstay_operator.client import Client
from backstay_operator.resource import Resource

Json = dict[str, Any]


def operations(old: Json | None, new: Json) -> list[Json]:
    """The JSON patch (RFC 6902) that makes the stored status to the new one; empty if they are equal.

    Field by field, so that a pass sends what changed and not all the evidence; a field that vanished is removed.
    """
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
    """Makes the stored status to this one; False where it is so already."""
    changes = operations(resource.body.get("status"), status)
    if not changes:
        return False
    owner = resource.owner
    # The uid makes sure that the status is not written to a new resource of the same name; a merge patch would not:
    # metadata in a patch of the status is ignored.
    same = {"op": "test", "path": "/metadata/uid", "value": owner.uid}
    await client.json_patch(kinds.MODEL_DEPLOYMENT, owner.namespace, owner.name, [same, *changes], subresource="status")
    return True
