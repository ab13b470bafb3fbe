"""Watching the ModelDeployments, by kopf: an event only says which resource to look at. No handler decides anything."""

import asyncio
import contextlib
import logging
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

import kopf
from backstay_contract import names

from backstay_operator import kinds
from backstay_operator.kinds import Kind
from backstay_operator.queue import Key, backoff_seconds
from backstay_operator.store import Store, resource_of

log = logging.getLogger(__name__)

SERVER_SECONDS = 300
"""A watch lives this long and is then renewed: one that died silently is noticed."""
CLIENT_SECONDS = 330

STEADY_SECONDS = 60.0
"""A watch that lived so long is started again at once."""

Enqueue = Callable[[Key], None]
HandOver = Callable[[Callable[[], None]], None]
Essence = tuple[Any, ...]


def essence(body: Mapping[str, Any]) -> Essence:
    """What a pass depends on of a resource's own object: not its status, which only the passes write."""
    metadata = body.get("metadata") or {}
    return (
        metadata.get("uid"),
        metadata.get("generation"),
        metadata.get("deletionTimestamp"),
        tuple(metadata.get("finalizers") or ()),
    )


class Watcher:
    """Turns events into keys, and keeps what they said."""

    def __init__(self, enqueue: Enqueue, store: Store) -> None:
        self._enqueue = enqueue
        self._store = store
        self._seen: dict[Key, Essence] = {}

    def wake(self, key: Key) -> None:
        """Something of the resource changed, whatever it was."""
        self._enqueue(key)

    def on_resource(self, gone: bool, body: Mapping[str, Any]) -> None:
        """A ModelDeployment appeared, changed or went."""
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        new, now = self._keep(kinds.MODEL_DEPLOYMENT, gone, body), essence(body)
        before = self._seen.pop(key, None)
        if not gone:
            self._seen[key] = now
        if new and (gone or before != now):
            self._enqueue(key)

    def on_child(self, kind: Kind, gone: bool, body: Mapping[str, Any]) -> None:
        """A child of a ModelDeployment appeared, changed or went. One that is only listed again says nothing new."""
        key = resource_of(body)
        if self._keep(kind, gone, body) and key is not None:
            self._enqueue(key)

    def _keep(self, kind: Kind, gone: bool, body: Mapping[str, Any]) -> bool:
        if not gone:
            return self._store.put(kind, body)
        self._store.drop(kind, body)
        return True


def registry(watcher: Watcher, hand_over: HandOver) -> kopf.OperatorRegistry:
    """kopf's registry with low-level event handlers only: these need no finalizer and no annotation of kopf's.

    `hand_over` calls the watcher in the loop that it belongs to.
    """
    to = kopf.OperatorRegistry()

    @kopf.on.login(registry=to)
    def login(**given: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**given) or kopf.login_with_kubeconfig(**given)

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=to)
    async def resource(event: kopf.RawEvent, **_: Any) -> None:
        hand_over(lambda: watcher.on_resource(event["type"] == "DELETED", event["object"]))

    return to


def settings() -> kopf.OperatorSettings:
    """kopf watches and writes nothing."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.scanning.disabled = True
    chosen.peering.standalone = True
    chosen.watching.server_timeout = SERVER_SECONDS
    chosen.watching.client_timeout = CLIENT_SECONDS
    chosen.watching.connect_timeout = 10
    chosen.networking.request_timeout = 30
    return chosen


async def watch(watcher: Watcher, namespaces: tuple[str, ...]) -> None:
    """Watches until it is cancelled.

    kopf gets a thread and a loop of its own: it takes signals over, and cancels all tasks of its loop when it ends.
    Where it gives up (a refused list, an error inside a watch), it is started again.
    """
    loop = asyncio.get_running_loop()
    failures = 0
    while True:
        began = loop.time()
        try:
            await _watch_once(watcher, namespaces)
            log.warning("the watch ended; it is started again")
        except Exception as error:  # whatever it is: without a watch nothing is seen but by the resync
            log.warning("the watch failed and is started again: %s: %s", type(error).__name__, error)
        failures = failures + 1 if loop.time() - began < STEADY_SECONDS else 1
        await asyncio.sleep(backoff_seconds(failures, random.random()))  # noqa: S311 - jitter


async def _watch_once(watcher: Watcher, namespaces: tuple[str, ...]) -> None:
    loop, stop = asyncio.get_running_loop(), threading.Event()

    def hand_over(action: Callable[[], None]) -> None:
        if not stop.is_set():
            loop.call_soon_threadsafe(action)

    async def main() -> None:
        await kopf.operator(
            registry=registry(watcher, hand_over),
            settings=settings(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=stop,
        )

    thread = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(main())))
    try:
        await asyncio.shield(thread)
    finally:
        stop.set()
        with contextlib.suppress(Exception):
            await thread
