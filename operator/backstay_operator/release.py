"""Lets all resources go, for an uninstall: without an operator nobody would ever remove its finalizer."""

import logging

from backstay_operator import client as clients
from backstay_operator import kinds
from backstay_operator import resource as resources
from backstay_operator.apply import finalizer
from backstay_operator.client import ApiError, Client

log = logging.getLogger(__name__)

TRIES = 5


async def release(namespaces: tuple[str, ...]) -> int:
    """Removes our finalizer from every resource in the namespaces (none given: in the cluster).

    Returns how many were let go. Children stay and serve on, owned by their resource.
    """
    async with await clients.connect() as client:
        return sum([await release_in(client, namespace) for namespace in namespaces or (None,)])


async def release_in(client: Client, namespace: str | None) -> int:
    """The same with a client at hand. Raises ApiError where the API server refuses."""
    try:
        found = await client.list_all(kinds.MODEL_DEPLOYMENT, namespace)
    except ApiError as error:
        if error.not_found:
            return 0  # the CRD is gone, and with it every resource
        raise
    return sum([await _release_one(client, body) for body in found])


async def _release_one(client: Client, body: resources.Json | None) -> bool:
    for tried in range(1, TRIES + 1):
        if body is None:
            return False
        one = resources.read(body)
        try:
            return await finalizer.drop(client, one)
        except ApiError as error:
            if error.not_found:
                return False
            if not error.conflict or tried == TRIES:
                raise
        body = await client.get(kinds.MODEL_DEPLOYMENT, one.owner.namespace, one.owner.name)
    return False
