"""How far a candidate's pods are with the model: the last progress line of their init containers, read now and then."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from backstay_contract.status import Fetching
from pydantic import ValidationError

from backstay_operator.client import ApiError, Client

CONTAINER = "pull"
EVERY_SECONDS = 10.0
"""Between two readings of a resource: each may cost a write of its status."""
PODS = 3
"""Pods that are read at most; the slowest of them is shown."""
LINES = 5
BYTES = 2048
SECONDS = 2.0
"""For one pod's log: a kubelet that is away must not hold up the pass."""


class Fetches:
    """Readings of all resources, each kept until the next is due."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._read: dict[str, tuple[datetime, Fetching | None]] = {}

    async def read(self, uid: str, pods: Iterable[Mapping[str, Any]], now: datetime) -> Fetching | None:
        """The slowest of the pods that fetch; None where none does."""
        fetching = [pod for pod in pods if fetches(pod)][:PODS]
        if not fetching:
            self.forget(uid)
            return None
        at, known = self._read.get(uid, (None, None))
        if at is not None and (now - at).total_seconds() < EVERY_SECONDS:
            return known
        found = await asyncio.gather(*(self._one(pod) for pod in fetching))
        said = [one for one in found if one is not None]
        slowest = min(said, key=lambda one: one.bytes / max(1, one.bytes_total), default=None)
        self._read[uid] = (now, slowest)
        return slowest

    def due_in(self, uid: str, now: datetime) -> float | None:
        """Seconds until the next reading; None where nothing is fetched."""
        at, _ = self._read.get(uid, (None, None))
        return None if at is None else max(0.0, EVERY_SECONDS - (now - at).total_seconds())

    def forget(self, uid: str) -> None:
        """Nothing is fetched for the resource any more."""
        self._read.pop(uid, None)

    async def _one(self, pod: Mapping[str, Any]) -> Fetching | None:
        metadata = pod["metadata"]
        try:
            async with asyncio.timeout(SECONDS):
                tail = await self._client.log_tail(
                    metadata["namespace"], metadata["name"], CONTAINER, lines=LINES, limit_bytes=BYTES, previous=False
                )
        except (ApiError, TimeoutError):
            return None
        return parse(tail)


def fetches(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's init container runs. Pure."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    running = any(one.get("name") == CONTAINER and "running" in (one.get("state") or {}) for one in statuses)
    return running and "deletionTimestamp" not in pod["metadata"]


def parse(tail: str) -> Fetching | None:
    """The last progress line in the end of a log. Pure; other lines, and the torn first one, are passed over."""
    for line in reversed(tail.splitlines()):
        try:
            said = json.loads(line)
            if said["message"] == "pulling":
                return Fetching(
                    bytes=said["bytes"],
                    bytes_total=said["bytes_total"],
                    bytes_per_second=round(said["mb_per_second"] * 1e6),
                    seconds_left=None if said.get("seconds_left") is None else round(said["seconds_left"]),
                )
        except (ValueError, KeyError, TypeError, ValidationError):
            continue
    return None
