"""Names that are taken: an object of a child's name that is not the resource's is never touched."""

from backstay_operator import kinds
from backstay_operator.client import ApiError, Client
from backstay_operator.desired.common import Json, Owner
from backstay_operator.kinds import Kind


class NameTakenError(Exception):
    """Somebody else's object has a child's name; the message names it and the remedy."""

    def __init__(self, kind: Kind, owner: Owner, name: str) -> None:
        super().__init__(
            f"{kind.name} {name} exists in namespace {owner.namespace} and does not belong to {owner.name}; "
            f"delete it, or give the ModelDeployment another name"
        )
        self.id = f"taken.{kind.name}.{name}".lower()


async def create_service(client: Client, owner: Owner, body: Json) -> Json:
    """Creates a Service that was not found among the children. Raises NameTakenError if there is one nevertheless."""
    try:
        return await client.create(kinds.SERVICE, body)
    except ApiError as error:
        if error.status != 409:
            raise
        raise NameTakenError(kinds.SERVICE, owner, body["metadata"]["name"]) from error


async def check_deployment(client: Client, owner: Owner, name: str) -> None:
    """Server-side apply would take over a Deployment that was not found among the children: look before.

    Raises NameTakenError if there is one.
    """
    if await client.get(kinds.DEPLOYMENT, owner.namespace, name) is not None:
        raise NameTakenError(kinds.DEPLOYMENT, owner, name)
