"""Between one operator and the API server: it passes everything on, counts the writes, and kills at the one named."""

import asyncio
import json
import re
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import aiohttp
from aiohttp import web
from backstay_cluster.control_plane import ControlPlane

from tests.integration.harness.api import Access

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "upgrade"}
WRITES = {"POST", "PUT", "PATCH", "DELETE"}
PATH = re.compile(
    r"/(?:api|apis/[^/]+)/[^/]+/namespaces/[^/]+/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?P<sub>/[a-z]+)?$"
)


class When(StrEnum):
    """On which side of the write the power goes."""

    BEFORE = "before"
    """The API server never sees it."""
    AFTER = "after"
    """The API server did it, and the operator never learns so."""


@dataclass(frozen=True)
class Write:
    """One write of the operator."""

    verb: str
    plural: str
    name: str
    sub: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.plural}/{self.name}{self.sub}"


def described(verb: str, path: str, body: bytes) -> Write | None:
    """The write that a request is; None for a read. A Lease says who acts and changes nothing else: it is none."""
    found = PATH.search(path)
    if verb not in WRITES or found is None or found["plural"] == "leases":
        return None
    name = found["name"] or json.loads(body or b"{}").get("metadata", {}).get("name", "")
    return Write(verb, found["plural"], name, found["sub"] or "")


@dataclass
class Trap:
    """Kills at the `number`th write, counted from 1; 0: never, it only counts."""

    number: int = 0
    when: When = When.BEFORE
    kill: Callable[[], None] = lambda: None
    counted: int = 0
    sprung: Write | None = None
    """The write that it killed at, once the process is gone: who waits for it may start the next one."""

    def count(self, write: Write | None) -> Write | None:
        """The write, if it is the one to kill at."""
        if write is None or self.sprung is not None:
            return None
        self.counted += 1
        return write if self.counted == self.number else None

    def spring(self, write: Write) -> None:
        self.kill()
        self.sprung = write


class Proxy:
    """Listens on loopback inside the control plane's network, in a thread of its own."""

    def __init__(self, plane: ControlPlane, access: Access, port: int) -> None:
        self.port = port
        self.trap = Trap()
        self.last_write = time.monotonic()
        self._access = access
        self._up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=lambda: plane.inside(lambda: asyncio.run(self._serve())), daemon=True)

    @property
    def server(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        assert self._up.wait(20), "the proxy does not listen"

    def stop(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(timeout=20)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        tls = ssl.create_default_context(cadata=self._access.authority)
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
            app = web.Application(client_max_size=16 * 1024 * 1024)

            async def passed_on(request: web.Request) -> web.StreamResponse:
                return await self._pass_on(session, request)

            app.router.add_route("*", "/{path:.*}", passed_on)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self.port).start()
            self._up.set()
            await self._done.wait()
            await runner.cleanup()

    async def _pass_on(self, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        write = described(request.method, request.path, body)
        if write is not None:
            self.last_write = time.monotonic()
        deadly = self.trap.count(write)
        if deadly is not None and self.trap.when is When.BEFORE:
            return self._cut(request, deadly)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        url = self._access.server + request.raw_path
        async with session.request(request.method, url, headers=headers, data=body or None) as answer:
            if deadly is not None:
                await answer.read()
                return self._cut(request, deadly)
            return await _give_back(request, answer)

    def _cut(self, request: web.Request, write: Write) -> web.StreamResponse:
        self.trap.spring(write)
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=502)


async def _give_back(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """The answer as it comes, so that a watch is one."""
    headers = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
    back = web.StreamResponse(status=answer.status, headers=headers)
    try:
        await back.prepare(request)
        async for piece in answer.content.iter_any():
            await back.write(piece)
        await back.write_eof()
    except (ConnectionResetError, aiohttp.ClientError):
        if request.transport is not None:
            request.transport.abort()  # who asked is dead, or the API server ended the watch
    return back
