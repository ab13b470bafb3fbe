"""Notifications on their way: sent in the background, tried again, never in a pass's way.

The Event in the cluster is the outbox: it holds the notice, and one annotation for each sink that has got it. An
operator that starts sends what has no such annotation yet. One that dies after it sent and before it wrote the
annotation leaves one notice to be sent twice, with the same id.
"""

import asyncio
import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from backstay_contract import names
from backstay_contract.names import Annotation, Label

from backstay_operator import kinds
from backstay_operator.client import ApiError, Client
from backstay_operator.http import Http, HttpError
from backstay_operator.notify import formats
from backstay_operator.notify.sinks import Sink, SinkError
from backstay_operator.queue import WorkQueue

log = logging.getLogger(__name__)

Json = dict[str, Any]
TRIES = 8
"""With the queue's back-off about two minutes, of which the API server's events outlive many."""
SEND_SECONDS = 10.0
AGAIN = (408, 425, 429)
"""Refusals that another try may cure, beside those of 500 and above."""
GAVE_UP = "gave-up"
MOST_WAITING = 1000
"""Notices in memory; beyond it the newest are left to the next operator that starts."""

Counted = Callable[[str, str], None]
"""Told the sink and `sent`, `failed` (tried again) or `given_up`."""


class Parcel(NamedTuple):
    """One notice for one sink."""

    namespace: str
    event: str
    sink: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.event} for {self.sink}"


class _RefusedError(Exception):
    """The sink answered that it never will take it."""


class Outbox:
    """Runs for as long as the operator leads."""

    def __init__(
        self,
        client: Client,
        http: Http,
        sinks: Sequence[Sink],
        counted: Counted,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._http = http
        self._sinks: Mapping[str, Sink] = {sink.name: sink for sink in sinks}
        self._counted = counted
        self._waiting: dict[Parcel, Json] = {}
        self._tries: dict[Parcel, int] = {}
        self._queue = WorkQueue(self._deliver, self._failed, workers=4, chance=chance)

    async def run(self, namespaces: tuple[str, ...]) -> None:
        """Sends until it is cancelled, at first what an earlier operator left."""
        if not self._sinks:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run())
            group.create_task(self._resume(namespaces))

    def offer(self, event: Json) -> None:
        """An Event that was just written, or was found: who has not got it will get it."""
        annotations = event["metadata"].get("annotations") or {}
        try:
            data = json.loads(annotations[Annotation.NOTICE])
        except (KeyError, ValueError):
            return  # another version's, or not ours
        for sink in self._sinks.values():
            if sink.wants(data) and notified(sink.name) not in annotations and len(self._waiting) < MOST_WAITING:
                parcel = Parcel(event["metadata"]["namespace"], event["metadata"]["name"], sink.name)
                self._waiting[parcel] = data
                self._queue.add(parcel)

    async def _resume(self, namespaces: tuple[str, ...]) -> None:
        try:
            for namespace in namespaces or (None,):
                ours = {Label.MANAGED_BY: names.MANAGED_BY}
                for event in await self._client.list_all(kinds.EVENT, namespace, ours):
                    self.offer(event)
        except ApiError as error:
            log.warning("notices of an earlier operator could not be looked for: %s", error)

    async def _deliver(self, parcel: Parcel) -> None:
        """One try. Raises where another one is wanted."""
        data = self._waiting.get(parcel)
        if data is None:
            return
        self._tries[parcel] = self._tries.get(parcel, 0) + 1
        try:
            await self._send(self._sinks[parcel.sink], data)
        except (HttpError, SinkError, _RefusedError) as error:
            if not isinstance(error, _RefusedError) and self._tries[parcel] < TRIES:
                self._counted(parcel.sink, "failed")
                raise
            self._counted(parcel.sink, "given_up")
            log.error("notification %s is given up after %d tries: %s", parcel, self._tries[parcel], error)
            await self._done(parcel, GAVE_UP)
            return
        self._counted(parcel.sink, "sent")
        await self._done(parcel, datetime.now(UTC).isoformat(timespec="seconds"))

    async def _send(self, sink: Sink, data: Json) -> None:
        post = formats.write(sink.format, data)
        try:
            answer = await self._http.ask("POST", sink.url(), headers=post.headers, body=post.body, within=SEND_SECONDS)
        except HttpError as error:
            # The library's words may hold the URL, and with it the secret.
            raise HttpError(f"no answer ({type(error.__cause__ or error).__name__})") from None
        if 200 <= answer.status < 300:
            return
        if answer.status >= 500 or answer.status in AGAIN:
            raise HttpError(f"answered {answer.status}")
        raise _RefusedError(f"refused with {answer.status}")

    async def _done(self, parcel: Parcel, mark: str) -> None:
        """Writes it down. Where that fails, the next operator that starts sends it once more: better twice than not."""
        self._waiting.pop(parcel, None)
        self._tries.pop(parcel, None)
        body = {"metadata": {"annotations": {notified(parcel.sink): mark}}}
        try:
            await self._client.merge_patch(kinds.EVENT, parcel.namespace, parcel.event, body)
        except ApiError as error:
            if not error.not_found:
                log.warning("notification %s was sent and could not be marked so: %s", parcel, error)

    def _failed(self, parcel: Parcel, error: Exception, in_a_row: int) -> None:
        if isinstance(error, HttpError | SinkError):
            log.warning("notification %s is tried again after %d tries: %s", parcel, in_a_row, error)
        else:
            log.error("notification %s: %s", parcel, type(error).__name__, exc_info=error)


def notified(sink: str) -> str:
    """The annotation that says that the sink has got it."""
    return f"{Annotation.NOTIFIED}-{sink}"
