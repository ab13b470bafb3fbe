"""The status: written once per pass, and only where it is different from the stored one."""

from typing import Any

from backstay_operator import kinds
from backstay_operator.client import Client
from backstay_operator.resource import Resource

Json = dict[str, Any]


def merge_patch(old: Json, new: Json) -> Json:
    """The JSON merge patch (RFC 7396) that makes `old` to `new`: fields that vanish are null; empty if equal.

    `new` must hold no null of its own: a merge patch cannot write one.
    """
    patch: Json = {key: None for key in old.keys() - new.keys()}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            inner = merge_patch(before, value)
            if inner:
                patch[key] = inner
        elif key not in old or before != value:
            patch[key] = value
    return patch


async def write(client: Client, resource: Resource, status: Json) -> bool:
    """Makes the stored status to this one; False where it is so already."""
    patch = merge_patch(resource.stored_status, status)
    if not patch:
        return False
    owner = resource.owner
    # The uid makes sure that the status is not written to a new resource of the same name.
    body = {"metadata": {"uid": owner.uid}, "status": patch}
    await client.merge_patch(kinds.MODEL_DEPLOYMENT, owner.namespace, owner.name, body, subresource="status")
    return True
