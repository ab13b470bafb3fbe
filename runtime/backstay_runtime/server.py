"""The sockets: two ports on one event loop, and an end in the right order."""

import asyncio
import contextlib
import json
import logging
import signal
import socket
from collections.abc import Generator, Sequence

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from backstay_runtime.api.errors import invalid
from backstay_runtime.api.service import Service

_log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 180
"""Longer than the usual clients keep a connection: then it is they who close idle ones, and no request is lost."""

HEADER_BYTES = 32 * 1024
"""A request line with headers beyond this is refused while it is being read."""

LAME_DUCK_SECONDS = 5.0
"""After SIGTERM new requests are still answered for this long: endpoints are withdrawn with a delay."""

CUT_SECONDS = 1.0
"""For the last error events to leave."""


class Protocol(H11Protocol):
    """HTTP/1.1 that refuses what is no HTTP with the error object."""

    def send_400_response(self, msg: str) -> None:
        """Answers 400 and closes the connection."""
        content = json.dumps(invalid(msg, code="invalid_http").body(None)).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
        ]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            for event in (
                h11.Response(status_code=400, headers=headers),
                h11.Data(data=content),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Server(uvicorn.Server):
    """A server that leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Captures none."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises OSError when the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Its connections inherit it. asyncio sets it only where a socket names its protocol; without it the second part of
    # an answer waits until the client has acknowledged the first, which clients put off for 40 ms.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def make_server(app: ASGIApp) -> Server:
    """A server for one port."""
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=2048,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=HEADER_BYTES,
    )
    return Server(config)


class Ending:
    """From the first SIGTERM to the last byte."""

    def __init__(self, service: Service, grace_seconds: float) -> None:
        self._service = service
        self._grace = grace_seconds
        self._told = asyncio.Event()
        self._now = asyncio.Event()

    def listen(self) -> None:
        """Takes SIGTERM and SIGINT from now on."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.signalled)

    def signalled(self) -> None:
        """The first signal begins the end, the second makes it immediate."""
        if self._told.is_set():
            self._now.set()
        self._service.terminate()
        self._told.set()

    async def wait(self) -> None:
        """Returns when the process may end: work finished, grace over, or a second signal.

        What still runs then is cut with an error that says so.
        """
        await self._told.wait()
        _log.info("ending: not ready any more, %d requests in flight", self._service.in_flight)
        lame = min(LAME_DUCK_SECONDS, self._grace / 3)
        await self._until_now(lame)
        self._service.refusing = True
        await self._until_now(self._grace - lame, or_idle=True)
        if self._service.in_flight and self._service.loaded is not None:
            _log.warning("the grace time is over: %d requests are cut", self._service.in_flight)
            self._service.loaded.loop.cut()
            self._now.clear()
            await self._until_now(CUT_SECONDS, or_idle=True)

    async def _until_now(self, seconds: float, *, or_idle: bool = False) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while not self._now.is_set() and asyncio.get_running_loop().time() < end:
            if or_idle and self._service.in_flight == 0:
                return
            await asyncio.sleep(0.02)


async def run_servers(servers: Sequence[tuple[Server, socket.socket]], until: asyncio.Event) -> None:
    """Serves until the event is set, then closes what is open."""
    tasks = [asyncio.ensure_future(server.serve(sockets=[sock])) for server, sock in servers]
    await until.wait()
    for server, _ in servers:
        server.should_exit = True
    await asyncio.gather(*tasks)
