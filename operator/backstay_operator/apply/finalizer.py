"""Our finalizer: there before the first child is, gone after the last one."""

from backstay_operator import kinds
from backstay_operator import resource as resources
from backstay_operator.client import Client
from backstay_operator.resource import FINALIZER, Json, Resource


async def add(client: Client, resource: Resource) -> Resource:
    """The resource, held; the very same where it was held already.

    Raises ApiError with `conflict` if it changed meanwhile.
    """
    if resource.held:
        return resource
    return resources.read(await _write(client, resource, [*resource.finalizers, FINALIZER]))


async def drop(client: Client, resource: Resource) -> bool:
    """Lets the resource go; False if it was not held."""
    if not resource.held:
        return False
    await _write(client, resource, [name for name in resource.finalizers if name != FINALIZER])
    return True


async def _write(client: Client, resource: Resource, finalizers: list[str]) -> Json:
    # A merge patch replaces the whole list, so it must be the list that was read.
    version = resource.body["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version, "finalizers": finalizers}}
    return await client.merge_patch(kinds.MODEL_DEPLOYMENT, resource.owner.namespace, resource.owner.name, body)
