"""What the operator does while it leads: watching, working, looking again at everything from time to time."""

import asyncio
import itertools
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime

from backstay_operator import handlers, kinds, watch
from backstay_operator.alerts.board import Board
from backstay_operator.alerts.webhook import Webhook
from backstay_operator.client import ApiError, Client
from backstay_operator.http import Http
from backstay_operator.notify.outbox import Outbox
from backstay_operator.queue import Key, WorkQueue, backoff_seconds
from backstay_operator.reconcile import Reconciler
from backstay_operator.settings import Settings
from backstay_operator.store import Store, refresh
from backstay_operator.telemetry import Telemetry

log = logging.getLogger(__name__)

CRD_POLL_SECONDS = 2.0


def now() -> datetime:
    return datetime.now(UTC)


async def serve(
    settings: Settings, telemetry: Telemetry, client: Client, http: Http, outside: Http, webhook: Webhook | None
) -> None:
    """Acts until it is cancelled. It begins with no memory, so that nothing of an earlier term is believed."""
    await _wait_for_crd(client)

    async def work(key: Key) -> float | None:
        telemetry.waiting.set(len(queue))
        with telemetry.passes.time():
            return await reconciler.reconcile(key)

    def failed(key: Key, error: Exception, in_a_row: int) -> None:
        telemetry.errors.labels(type(error).__name__).inc()
        _log_failure(key, error, in_a_row)

    queue = WorkQueue(work, failed, workers=settings.workers)
    outbox = Outbox(client, outside, settings.sinks, telemetry.notified)
    board = Board(queue.add, settings.namespaces)
    store, listed = Store(), asyncio.Event()
    reconciler = Reconciler(client, http, settings, telemetry, now, queue.add, outbox.offer, board, store)
    log.info("watching %s", ", ".join(settings.namespaces) or "all namespaces")
    try:
        if webhook is not None:
            webhook.board = board
        async with asyncio.TaskGroup() as group:
            group.create_task(queue.run(), name="queue")
            group.create_task(outbox.run(settings.namespaces), name="outbox")
            group.create_task(reconciler.recall(), name="recall")
            group.create_task(_resync(client, settings, store, queue.add, listed), name="resync")
            await listed.wait()
            watcher = handlers.Watcher(queue.add, store)
            group.create_task(handlers.watch(watcher, settings.namespaces), name="watch")
            for kind, namespace in itertools.product(watch.CHILDREN, settings.namespaces or (None,)):
                watching = watch.children(client, watcher, store, kind, namespace)
                group.create_task(watching, name=f"watch of {kind.plural}")
    finally:
        if webhook is not None:
            webhook.board = None
        reconciler.forget_all()


def _log_failure(key: Key, error: Exception, in_a_row: int) -> None:
    extra = {"resource": str(key)}
    if isinstance(error, ApiError):
        # The first conflict or absence is the ordinary race of a level-triggered loop.
        level = logging.INFO if in_a_row == 1 and (error.conflict or error.not_found) else logging.WARNING
        log.log(level, "tried again: %s", error, extra=extra)
    else:
        log.error("tried again: %s: %s", type(error).__name__, error, exc_info=error, extra=extra)


async def _wait_for_crd(client: Client) -> None:
    said = False
    while True:
        try:
            if await client.serves(kinds.MODEL_DEPLOYMENT):
                return
            problem = f"the API server does not know {kinds.MODEL_DEPLOYMENT.plural} yet; install the CRD"
        except ApiError as error:
            problem = str(error)
        if not said:
            log.warning("waiting: %s", problem)
            said = True
        await asyncio.sleep(CRD_POLL_SECONDS)


async def _resync(
    client: Client, settings: Settings, store: Store, enqueue: Callable[[Key], None], listed: asyncio.Event
) -> None:
    """Lists everything at first and from time to time, and looks at what a watch has missed."""
    failures = 0
    while True:
        try:
            for key in await refresh(client, store, (kinds.MODEL_DEPLOYMENT, *watch.CHILDREN), settings.namespaces):
                enqueue(key)
            failures = 0
            listed.set()
        except ApiError as error:
            failures += 1
            log.warning("resync: %s", error)
        chance = random.random()  # noqa: S311 - jitter: several operators must not list at the same time
        seconds = settings.resync_seconds * (0.9 + chance / 5)
        await asyncio.sleep(min(seconds, backoff_seconds(failures, chance)) if failures else seconds)
