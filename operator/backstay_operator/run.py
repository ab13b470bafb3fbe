"""The process: it answers probes, and acts while it leads."""

import asyncio
import contextlib
import logging
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

from prometheus_client import start_http_server

from backstay_operator import client as clients
from backstay_operator import server, term
from backstay_operator.alerts.webhook import Webhook
from backstay_operator.http import Http
from backstay_operator.leader import election
from backstay_operator.leader.leader import Leader
from backstay_operator.settings import Settings
from backstay_operator.telemetry import Telemetry

log = logging.getLogger(__name__)

ENDING_SECONDS = 5.0
"""What is under way may take so long to end after it was cancelled; nothing is written meanwhile."""


async def run(settings: Settings) -> None:
    """Runs the operator until it is told to stop (SIGTERM, SIGINT)."""
    telemetry = Telemetry()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    metrics, thread = start_http_server(settings.metrics_port, registry=telemetry.registry)
    try:
        token = settings.alerts_token_file
        webhook = Webhook(token, telemetry.alerted) if token is not None else None
        app = server.application(webhook.routes() if webhook is not None else ())
        async with server.serving(app, settings.health_port):
            await _operate(settings, telemetry, stopping, webhook)
    finally:
        metrics.shutdown()
        thread.join()


async def _operate(settings: Settings, telemetry: Telemetry, stopping: asyncio.Event, webhook: Webhook | None) -> None:
    """Stands by, acts while it leads, stands by again."""
    who = election.identity(settings.instance, settings.pod_uid, uuid.uuid4().hex[:8])
    terms = election.terms(settings.lease_seconds)
    async with await clients.connect() as leases:
        leader = Leader(leases, settings.lease_namespace, settings.lease_name, who, terms)
        async with (
            await clients.connect(telemetry.wrote, leader.leave) as client,
            _closing(Http()) as http,
            _closing(Http(outside=True)) as outside,
        ):

            def act() -> Awaitable[None]:
                return term.serve(settings, telemetry, client, http, outside, webhook)

            try:
                while not stopping.is_set():
                    await _first(stopping.wait, leader.acquire)
                    if leader.leads:
                        telemetry.leader.set(1)
                        await _first(stopping.wait, leader.keep, act)
                        telemetry.leader.set(0)
            finally:
                await leader.release()


@contextlib.asynccontextmanager
async def _closing(http: Http) -> AsyncIterator[Http]:
    try:
        yield http
    finally:
        await http.close()


async def _first(*works: Callable[[], Awaitable[object]]) -> None:
    """Ends when the first of them ends, with its error if it has one; the others are cancelled."""
    tasks = [asyncio.ensure_future(work()) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=ENDING_SECONDS)
