"""The end of a resource: pods first, Services after them, the finalizer last.

It needs nothing but the API server: no Secret, bucket, profile or Prometheus. The Services outlive the pods, so that
requests under way are not cut off. Children that shall stay (`--cascade=orphan`, deletionPolicy: Orphan) are left
alone, or let go of.
"""

import asyncio
import logging
from collections.abc import Iterable
from datetime import datetime

from backstay_contract.reasons import Reason
from backstay_contract.resource import DeletionPolicy
from backstay_contract.status import Phase

from backstay_operator import kinds
from backstay_operator import resource as resources
from backstay_operator.apply import finalizer, orphans
from backstay_operator.apply import status as writing
from backstay_operator.apply.companions import Companions
from backstay_operator.client import ApiError, Client
from backstay_operator.desired.common import Json
from backstay_operator.kinds import Kind
from backstay_operator.observe import children as reading
from backstay_operator.observe.children import Children
from backstay_operator.resource import Resource

log = logging.getLogger(__name__)

PODS_SECONDS = 45.0
"""How long the pods may take before the Services go, too. Longer requests still end with their pod, unrouted."""
POLL_SECONDS = 1.0
ORPHANING = "orphan"
"""Kubernetes' own finalizer while its garbage collector lets go of the children (`kubectl delete --cascade=orphan`)."""


class Teardown:
    """Passes over resources that are being deleted. It remembers when it first saw each: an operator that was away
    when the deletion began must not cut the pods' time short."""

    def __init__(self, client: Client, companions: Companions) -> None:
        self._client = client
        self._companions = companions
        self._since: dict[str, datetime] = {}

    async def step(self, resource: Resource, now: datetime) -> float | None:
        """One pass: seconds until the next, None when the resource is let go."""
        if not resource.held or ORPHANING in resource.finalizers:
            self._since.pop(resource.owner.uid, None)
            if resource.held:
                await finalizer.drop(self._client, resource)
            return None
        since = self._since.setdefault(resource.owner.uid, now)
        await self._say(resource)
        if await self._children_left(resource, (now - since).total_seconds()):
            return POLL_SECONDS
        await self._let_go(resource)
        self._since.pop(resource.owner.uid, None)
        return None

    async def _children_left(self, resource: Resource, seconds: float) -> bool:
        """Lets the children go, or ends them; True while their pods are waited for.

        Without rights on them, as in a namespace that is deleted together with the operator's Role, they are left to
        the garbage collector: holding the resource would help nobody.
        """
        try:
            children = await reading.read(self._client, resource.owner)
            if keeps_children(resource):
                await self._orphan(resource, children)
                return False
            return await self._end(resource, children, seconds)
        except ApiError as error:
            if not error.forbidden:
                raise
            log.warning("%s: its children are left to the garbage collector: %s", resource.owner.name, error)
            return False

    async def _end(self, resource: Resource, children: Children, seconds: float) -> bool:
        """Ends the children; True while the pods are waited for.

        Pods that nothing of ours makes or routes any more are not waited for: somebody else ended the children first,
        as a deletion in the foreground does, or they were let go.
        """
        await self._delete(resource, kinds.DEPLOYMENT, children.deployments.values())
        ours = children.deployments or children.active or children.preview
        if ours and any(children.pods.values()) and seconds < PODS_SECONDS:
            return True
        await self._delete(resource, kinds.SERVICE, _services(children))
        return False

    async def _orphan(self, resource: Resource, children: Children) -> None:
        found = [(kinds.DEPLOYMENT, one) for one in children.deployments.values()]
        found += [(kinds.SERVICE, one) for one in _services(children)]
        for kind, one in [*found, *await self._companions.of(resource.owner)]:
            await orphans.let_go(self._client, kind, one, resource.owner)

    async def _let_go(self, resource: Resource) -> None:
        """On the resource as it is now: showing the phase has changed it."""
        body = await self._client.get(kinds.MODEL_DEPLOYMENT, resource.owner.namespace, resource.owner.name)
        if body is not None and body["metadata"]["uid"] == resource.owner.uid:
            await finalizer.drop(self._client, resources.read(body))

    async def _say(self, resource: Resource) -> None:
        """Shows what goes on. Best effort: a deletion must not wait for a status."""
        said = "let go" if keeps_children(resource) else "the pods finish their requests, then the Services go"
        status = resource.stored_status | {
            "phase": Phase.TERMINATING.value,
            "reason": Reason.TERMINATING.value,
            "message": said,
        }
        try:
            await writing.write(self._client, resource, status)
        except ApiError:
            return

    async def _delete(self, resource: Resource, kind: Kind, found: Iterable[Json]) -> None:
        namespace = resource.owner.namespace
        await asyncio.gather(
            *(
                self._client.delete(kind, namespace, one["metadata"]["name"], one["metadata"]["uid"])
                for one in found
                if "deletionTimestamp" not in one["metadata"]
            )
        )


def keeps_children(resource: Resource) -> bool:
    """Whether the children shall go on serving. Read from the raw spec: it need not be valid for a deletion."""
    return (resource.body.get("spec") or {}).get("deletionPolicy") == DeletionPolicy.ORPHAN


def _services(children: Children) -> list[Json]:
    return [one for one in (children.active, children.preview) if one is not None]
