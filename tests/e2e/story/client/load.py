"""A steady load on one Service, and a line of JSON about each request. Standard library only: it runs in a pod, from a
ConfigMap, with any image that has Python 3.11.

Requests are sent at fixed times, however long the answers take (open loop), and no request is ever sent twice, so a
request that is lost is seen as lost. Kind `new` opens a connection for each request. Kind `kept` takes the connection
that has been idle longest and keeps it afterwards, as HTTP clients with a pool do. Kind `probe` is no load: it asks so
many times, one after the other, and ends.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

QUESTIONS = ("Name a colour.", "What is 2 + 2?", "Say hello.", "Name a fruit.", "Is water wet?", "Name a city.")
BEGINNINGS = ("The capital of France is", "One, two, three,", "Roses are red, violets are", "Once upon a time")


class Target(NamedTuple):
    """Where the requests go, and what they ask."""

    host: str
    port: int
    model: str
    max_tokens: int
    timeout_s: float


class Reply(NamedTuple):
    """What came back on a connection."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def closes(self) -> bool:
        """Whether the server ends the connection after it."""
        return "close" in self.headers.get("connection", "").lower()


class Connection:
    """One TCP connection; `used` counts the requests before the present one."""

    numbers = itertools.count()

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = next(self.numbers)
        self.used = 0
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, target: Target) -> "Connection":
        return cls(*await asyncio.open_connection(target.host, target.port))

    @property
    def is_open(self) -> bool:
        """False as soon as the server's end of the connection was seen."""
        return not self._reader.at_eof() and not self._writer.is_closing()

    async def exchange(self, message: bytes) -> Reply:
        self._writer.write(message)
        await self._writer.drain()
        status, headers = head(await self._reader.readuntil(b"\r\n\r\n"))
        return Reply(status, headers, await self._body(headers))

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", ""):
            body = b""
            while size := int((await self._reader.readline()).split(b";")[0], 16):
                body += (await self._reader.readexactly(size + 2))[:-2]
            await self._reader.readline()
            return body
        return await self._reader.readexactly(int(headers.get("content-length", "0")))

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


def head(data: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers (names in lower case) of a reply's head. Raises ValueError for what is no HTTP."""
    first, *lines = data.decode("latin-1").split("\r\n")
    version, status, *_ = first.split(" ", 2)
    if not version.startswith("HTTP/1."):
        raise ValueError(f"not HTTP: {first[:40]!r}")
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return int(status), {name.strip().lower(): value.strip() for name, value in pairs}


def questions(target: Target, kind: str) -> Iterator[tuple[str, bytes]]:
    """Chats and completions in turn, for ever: (path, HTTP message)."""
    for number in itertools.count():
        body: dict[str, Any] = {"model": target.model, "max_tokens": target.max_tokens, "temperature": 0}
        if number % 2:
            path, text = "/v1/completions", BEGINNINGS[number // 2 % len(BEGINNINGS)]
            body["prompt"] = text
        else:
            path, text = "/v1/chat/completions", QUESTIONS[number // 2 % len(QUESTIONS)]
            body["messages"] = [{"role": "user", "content": text}]
        yield path, message(target, path, body, keep=kind == "kept")


def message(target: Target, path: str, body: dict[str, Any], *, keep: bool) -> bytes:
    """A POST request as it goes over the wire."""
    content = json.dumps(body).encode()
    lines = (
        f"POST {path} HTTP/1.1",
        f"Host: {target.host}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        f"Connection: {'keep-alive' if keep else 'close'}",
    )
    return "\r\n".join((*lines, "", "")).encode() + content


class Pool:
    """Idle connections, the one idle longest first."""

    def __init__(self, target: Target, size: int) -> None:
        self._target, self._size = target, size
        self._idle: deque[Connection] = deque()

    async def take(self) -> Connection:
        while self._idle:
            connection = self._idle.popleft()
            if connection.is_open:
                return connection
            await connection.close()
        return await Connection.open(self._target)

    async def give_back(self, connection: Connection, reply: Reply) -> None:
        connection.used += 1
        if reply.closes or len(self._idle) >= self._size:
            await connection.close()
        else:
            self._idle.append(connection)

    async def close(self) -> None:
        while self._idle:
            await self._idle.popleft().close()


async def ask(target: Target, pool: Pool, path: str, request: bytes, tell: Callable[[dict[str, Any]], None]) -> None:
    """One request; tells what became of it, whatever it was."""
    sent = time.time()
    line: dict[str, Any] = {"sent": sent, "path": path, "status": None, "digest": None, "error": None}
    connection: Connection | None = None
    try:
        async with asyncio.timeout(target.timeout_s):
            connection = await pool.take()
            line |= {"connection": connection.number, "used": connection.used}
            reply = await connection.exchange(request)
        line |= {"status": reply.status, "digest": reply.headers.get("x-model-digest"), "closes": reply.closes}
        if reply.status != 200:
            line["error"] = reply.body[:300].decode("utf-8", "replace")
        await pool.give_back(connection, reply)
    except (OSError, ValueError, asyncio.IncompleteReadError, TimeoutError) as error:
        line["error"] = f"{type(error).__name__}: {error}"[:300]
        if connection is not None:
            await connection.close()
    line["ms"] = round((time.time() - sent) * 1000, 3)
    tell(line)


async def run(target: Target, kind: str, rate: float, connections: int) -> None:
    """Send `rate` requests per second until cancelled."""
    pool = Pool(target, connections if kind == "kept" else 0)
    tasks: set[asyncio.Task[None]] = set()
    began = time.monotonic()
    try:
        for number, (path, request) in enumerate(questions(target, kind)):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            task = asyncio.create_task(ask(target, pool, path, request, partial(tell, kind, number)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    finally:
        await pool.close()


async def probe(target: Target, times: int) -> None:
    """Ask `times` times, each when the one before has been answered."""
    pool = Pool(target, 1)
    for number, (path, request) in zip(range(times), questions(target, "kept"), strict=False):
        await ask(target, pool, path, request, partial(tell, "probe", number))
    await pool.close()


def tell(kind: str, number: int, line: dict[str, Any]) -> None:
    """Write a line about one request."""
    sys.stdout.write(json.dumps({"number": number, "kind": kind, **line}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the options and send until the end."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--url", required=True, help="http://HOST[:PORT]")
    options.add_argument("--model", required=True)
    options.add_argument("--kind", choices=("new", "kept", "probe"), required=True)
    options.add_argument("--rate", type=float, default=1.0, help="requests per second")
    options.add_argument("--times", type=int, default=1, help="requests of kind `probe`")
    options.add_argument("--connections", type=int, default=4, help="connections that kind `kept` keeps")
    options.add_argument("--max-tokens", type=int, default=4)
    options.add_argument("--timeout", type=float, default=60.0, help="seconds after which a request is lost")
    given = options.parse_args()
    url = urlsplit(given.url)
    target = Target(str(url.hostname), url.port or 80, given.model, given.max_tokens, given.timeout)
    if given.kind == "probe":
        asyncio.run(probe(target, given.times))
    else:
        asyncio.run(run(target, given.kind, given.rate, given.connections))


if __name__ == "__main__":
    main()
