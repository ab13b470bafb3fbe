"""Names that are taken: an object of a child's name that is not the resource's is never touched."""

from backstay_operator import kinds
from backstay_operator.client import ApiError, Client
from backstay_operator.desired.common import Json, Owner
from backstay_operator.kinds import Kind
from backstay_operator.observe import children


class NameTakenError(Exception):
    """Somebody else's object has a child's name; the message names it and the remedy."""

    def __init__(self, kind: Kind, owner: Owner, name: str) -> None:
        super().__init__(
            f"{kind.name} {name} exists in namespace {owner.namespace} and does not belong to {owner.name}; "
            f"delete it, or give the ModelDeployment another name"
        )
        self.id = f"taken.{kind.name}.{name}".lower()


async def create_service(client: Client, owner: Owner, body: Json) -> Json:
    """Creates a Service that was not found among the children, and gives what is there afterwards.

    One of the resource's own that came up meanwhile is as good. Raises NameTakenError where it is somebody else's,
    ApiError where it has gone again: then the pass has to be tried again.
    """
    try:
        return await client.create(kinds.SERVICE, body)
    except ApiError as error:
        if error.status != 409:
            raise
        found = await client.get(kinds.SERVICE, owner.namespace, body["metadata"]["name"])
        if found is None:
            raise
        return _own(kinds.SERVICE, owner, found)


async def check_deployment(client: Client, owner: Owner, name: str) -> None:
    """Server-side apply would take over a Deployment that was not found among the children: look before.

    Raises NameTakenError if there is one and it is somebody else's.
    """
    found = await client.get(kinds.DEPLOYMENT, owner.namespace, name)
    if found is not None:
        _own(kinds.DEPLOYMENT, owner, found)


def _own(kind: Kind, owner: Owner, found: Json) -> Json:
    if not children.owned(found, owner):
        raise NameTakenError(kind, owner, found["metadata"]["name"])
    return found
