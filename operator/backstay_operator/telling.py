"""Telling each notice once: as an Event, and with it to everybody who is notified."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from backstay_contract.status import Notice

from backstay_operator.apply import events
from backstay_operator.client import ApiError, Client
from backstay_operator.desired.common import Owner
from backstay_operator.queue import Key

log = logging.getLogger(__name__)

MAX_UNTOLD = 20
"""Notices of a resource that wait until they can be told; the oldest are given up first."""


class Teller:
    """Remembers what could not be told yet. `offer` is given each Event that was written."""

    def __init__(self, client: Client, instance: str, offer: Callable[[dict[str, Any]], None]) -> None:
        self._client = client
        self._instance = instance
        self._offer = offer
        self._untold: dict[str, list[Notice]] = {}

    def knows(self, owner: Owner) -> bool:
        """Whether something of the resource was told in this operator's life."""
        return owner.uid in self._untold

    async def tell(self, owner: Owner, notices: Iterable[Notice]) -> bool:
        """Tells the notices and those that could not be told before; False if some are left for a later pass.

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
                    return False  # one that is not valid never will be
                written = None
            waiting.pop(0)
            if written is not None:
                self._offer(written)
        return True

    def forget(self, uid: str) -> None:
        """The resource is gone."""
        self._untold.pop(uid, None)
