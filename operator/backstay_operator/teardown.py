"""The end of a resource: pods first, Services after them, the finalizer last.

It needs nothing but the API server: no Secret, bucket, profile or Prometheus. The Services outlive the pods, so that
requests under way are not cut off.
"""

import asyncio
from datetime import datetime

from backstay_contract.reasons import Reason
from backstay_contract.status import Phase

from backstay_operator import kinds
from backstay_operator import resource as resources
from backstay_operator.apply import finalizer
from backstay_operator.apply import status as writing
from backstay_operator.client import ApiError, Client
from backstay_operator.observe import children as reading
from backstay_operator.observe.children import Children
from backstay_operator.resource import Resource

PODS_SECONDS = 45.0
"""How long the pods may take before the Services go, too. Longer requests still end with their pod, unrouted."""
POLL_SECONDS = 1.0


class Teardown:
    """Passes over resources that are being deleted. It remembers when it first saw each: an operator that was away
    when the deletion began must not cut the pods' time short."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._since: dict[str, datetime] = {}

    async def step(self, resource: Resource, now: datetime) -> float | None:
        """One pass: seconds until the next, None when the resource is let go."""
        if not resource.held:
            self._since.pop(resource.owner.uid, None)
            return None
        since = self._since.setdefault(resource.owner.uid, now)
        await self._say(resource)
        children = await reading.read(self._client, resource.owner)
        await self._delete_deployments(resource, children)
        pods_left = any(children.pods.get(colour) for colour in children.pods)
        if pods_left and (now - since).total_seconds() < PODS_SECONDS:
            return POLL_SECONDS
        await self._delete_services(resource, children)
        await self._let_go(resource)
        self._since.pop(resource.owner.uid, None)
        return None

    async def _let_go(self, resource: Resource) -> None:
        """On the resource as it is now: showing the phase has changed it."""
        body = await self._client.get(kinds.MODEL_DEPLOYMENT, resource.owner.namespace, resource.owner.name)
        if body is not None and body["metadata"]["uid"] == resource.owner.uid:
            await finalizer.drop(self._client, resources.read(body))

    async def _say(self, resource: Resource) -> None:
        """Shows what goes on. Best effort: a deletion must not wait for a status."""
        status = resource.stored_status | {
            "phase": Phase.TERMINATING.value,
            "reason": Reason.TERMINATING.value,
            "message": "the pods finish their requests, then the Services go",
        }
        try:
            await writing.write(self._client, resource, status)
        except ApiError:
            return

    async def _delete_deployments(self, resource: Resource, children: Children) -> None:
        namespace = resource.owner.namespace
        await asyncio.gather(
            *(
                self._client.delete(kinds.DEPLOYMENT, namespace, one["metadata"]["name"], one["metadata"]["uid"])
                for one in children.deployments.values()
                if "deletionTimestamp" not in one["metadata"]
            )
        )

    async def _delete_services(self, resource: Resource, children: Children) -> None:
        namespace = resource.owner.namespace
        await asyncio.gather(
            *(
                self._client.delete(kinds.SERVICE, namespace, one["metadata"]["name"], one["metadata"]["uid"])
                for one in (children.active, children.preview)
                if one is not None and "deletionTimestamp" not in one["metadata"]
            )
        )
