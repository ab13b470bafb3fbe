"""Lets go of a child: it stays as it is, owned by nobody."""

from backstay_operator.client import ApiError, Client
from backstay_operator.desired.common import Json, Owner
from backstay_operator.kinds import Kind


async def let_go(client: Client, kind: Kind, child: Json, owner: Owner) -> None:
    """Takes the resource out of the child's owners. One that is gone already is no error.

    Raises ApiError with `conflict` if the owners changed meanwhile.
    """
    metadata = child["metadata"]
    present = metadata.get("ownerReferences") or []
    others = [one for one in present if one.get("uid") != owner.uid]
    if len(others) == len(present):
        return
    operations: list[Json] = [
        {"op": "test", "path": "/metadata/ownerReferences", "value": present},
        {"op": "add", "path": "/metadata/ownerReferences", "value": others},
    ]
    try:
        await client.json_patch(kind, metadata["namespace"], metadata["name"], operations)
    except ApiError as error:
        if not error.not_found:
            raise
