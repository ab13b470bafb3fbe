"""Telling each notice once: as an Event, and with it to everybody who is notified."""

import logging
import random
from collections.abc import Callable, Iterable
from typing import Any

from backstay_contract.status import Notice

from backstay_operator.apply import events
from backstay_operator.client import ApiError, Client
from backstay_operator.desired.common import Owner
from backstay_operator.queue import Key, backoff_seconds

log = logging.getLogger(__name__)

MAX_UNTOLD = 20
"""Notices of a resource that wait until they can be told; the oldest are given up first."""


class Teller:
    """Remembers what could not be told yet. `offer` is given each Event that was written."""

    def __init__(
        self,
        client: Client,
        instance: str,
        offer: Callable[[dict[str, Any]], None],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._instance = instance
        self._offer = offer
        self._chance = chance
        self._untold: dict[str, list[Notice]] = {}
        self._failures: dict[str, int] = {}
        self._told_before: set[tuple[str, str]] = set()

    def knows(self, owner: Owner) -> bool:
        """Whether something of the resource was told in this operator's life."""
        return owner.uid in self._untold

    async def recall(self, namespaces: tuple[str, ...]) -> None:
        """Learns what an operator before this one told. Nothing waits for it: it only saves writes that are refused."""
        try:
            async for event in events.told(self._client, namespaces):
                self._told_before.add(event)
        except ApiError as error:
            log.warning("what an earlier operator told could not be looked for: %s", error)

    def untold(self, owner: Owner, left: Iterable[Notice]) -> tuple[Notice, ...]:
        """Of what an operator before this one had to tell, that which it is not known to have told."""
        known = {notice.id for notice in left if (owner.namespace, events.name_of(owner, notice)) in self._told_before}
        return tuple(notice for notice in left if notice.id not in known)

    async def tell(self, owner: Owner, notices: Iterable[Notice]) -> float | None:
        """Tells the notices and those that could not be told before. Where some are left for a later pass: the seconds
        until then.

        That people cannot be told must stop nothing that a pass does.
        """
        waiting = self._untold.setdefault(owner.uid, [])
        waiting += notices
        del waiting[:-MAX_UNTOLD]
        while waiting:
            try:
                written = await events.tell(self._client, owner, waiting[0], self._instance)
            except ApiError as error:
                key = Key(owner.namespace, owner.name)
                log.warning("event %s could not be told: %s", waiting[0].id, error, extra={"resource": str(key)})
                if error.status not in (400, 422):
                    return self._later(owner)
                written = None  # one that is not valid never will be
            waiting.pop(0)
            if written is not None:
                self._offer(written)
        self._failures.pop(owner.uid, None)
        return None

    def _later(self, owner: Owner) -> float:
        """Soon after a first failure, and less and less often where a person has to give a right first."""
        self._failures[owner.uid] = self._failures.get(owner.uid, 0) + 1
        return backoff_seconds(self._failures[owner.uid], self._chance())

    def forget(self, uid: str) -> None:
        """The resource is gone."""
        self._failures.pop(uid, None)
        self._untold.pop(uid, None)
