"""Watching, by kopf: each event only says which resource to look at. No handler decides anything."""

import asyncio
import contextlib
import logging
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

import kopf
from backstay_contract import names
from backstay_contract.names import Label

from backstay_operator import kinds
from backstay_operator.queue import Key, backoff_seconds

log = logging.getLogger(__name__)

CHILDREN = (kinds.DEPLOYMENT, kinds.POD, kinds.SERVICE, kinds.ENDPOINT_SLICE)
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
    """Turns events into keys."""

    def __init__(self, enqueue: Enqueue) -> None:
        self._enqueue = enqueue
        self._seen: dict[Key, Essence] = {}

    def on_resource(self, namespace: str, name: str, gone: bool, body: Mapping[str, Any]) -> None:
        """A ModelDeployment appeared, changed or went."""
        key = Key(namespace, name)
        if gone:
            self._seen.pop(key, None)
        elif self._seen.get(key) == (now := essence(body)):
            return
        else:
            self._seen[key] = now
        self._enqueue(key)

    def on_child(self, namespace: str, labels: Mapping[str, str]) -> None:
        """A child of a ModelDeployment appeared, changed or went."""
        name = labels.get(Label.RESOURCE)
        if name:
            self._enqueue(Key(namespace, name))


def registry(watcher: Watcher, hand_over: HandOver) -> kopf.OperatorRegistry:
    """kopf's registry with low-level event handlers only: these need no finalizer and no annotation of kopf's.

    `hand_over` calls the watcher in the loop that it belongs to.
    """
    to = kopf.OperatorRegistry()

    @kopf.on.login(registry=to)
    def login(**given: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**given) or kopf.login_with_kubeconfig(**given)

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=to)
    async def resource(type: str | None, namespace: str | None, name: str, body: kopf.Body, **_: Any) -> None:
        hand_over(lambda: watcher.on_resource(namespace or "", name, type == "DELETED", body))

    async def child(namespace: str | None, labels: Mapping[str, str], **_: Any) -> None:
        hand_over(lambda: watcher.on_child(namespace or "", labels))

    for kind in CHILDREN:
        group, _, version = kind.api_version.rpartition("/")
        kopf.on.event(group, version, kind.plural, registry=to, id=f"child-{kind.plural}")(child)
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
    for kind in CHILDREN:
        group, _, version = kind.api_version.rpartition("/")
        chosen.watching.label_selectors[group, version, kind.plural] = f"{Label.MANAGED_BY}={names.MANAGED_BY}"
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
