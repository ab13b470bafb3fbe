"""A request to an ASGI application in the same process."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Self

from starlette.types import ASGIApp, Message


class Exchange:
    """One request and its answer. Leaving the block before the answer's end is what hanging up is on a socket."""

    def __init__(self, app: ASGIApp, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self._content: bytes | None = json.dumps(body).encode()
        self._gone = asyncio.Event()
        self._sent: asyncio.Queue[Message | None] = asyncio.Queue()
        self._app = app
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [
                (b"content-type", b"application/json"),
                *((name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()),
            ],
            "client": None,
            "server": None,
            "state": {},
        }
        self.status = 0
        self.headers: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        """Begins the answer: status and headers are known."""
        self._task = asyncio.ensure_future(self._run())
        try:
            start = await self._sent.get()
        except BaseException:
            await self._end()
            raise
        if start is None:
            raise RuntimeError("the application ended without an answer")
        self.status = start["status"]
        self.headers = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def _end(self) -> None:
        self._gone.set()
        await asyncio.wait([self._task])

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """The answer's body as it comes."""
        while (message := await self._sent.get()) is not None:
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                return

    async def body(self) -> dict[str, Any]:
        """The whole body, which is a JSON object."""
        whole = b"".join([part async for part in self.parts()])
        value: dict[str, Any] = json.loads(whole)
        return value

    async def events(self) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a stream, without its end."""
        held = b""
        async for part in self.parts():
            held += part
            *whole, held = held.split(b"\n\n")
            for event in whole:
                data = event.removeprefix(b"data: ")
                if data != b"[DONE]":
                    yield json.loads(data)

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
        finally:
            self._sent.put_nowait(None)

    async def _receive(self) -> Message:
        if self._content is not None:
            content, self._content = self._content, None
            return {"type": "http.request", "body": content, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self._sent.put_nowait(message)
