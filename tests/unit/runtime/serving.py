"""The whole application on the tiny model, in this process and without a socket."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
from backstay_contract.metric import MetricName
from backstay_runtime import assemble
from backstay_runtime.api.app import create_app
from backstay_runtime.api.service import Service
from backstay_runtime.assemble import Model, Sizes
from backstay_runtime.engine import Engine
from backstay_runtime.identity import Identity
from backstay_runtime.telemetry.metrics import Metrics
from backstay_runtime.text.template import load_template
from backstay_runtime.text.tokenizer import Tokenizer
from starlette.types import ASGIApp, Message

from . import tiny
from .machinery import make_engine

IDENTITY = Identity("tiny", "1.2.0", "sha256:" + "ab" * 32)
MAX_MODEL_LEN = 128


class Place:
    """A serving application and ways to ask it."""

    def __init__(self, service: Service, app: ASGIApp, engine: Engine) -> None:
        self.service = service
        self.app = app
        self.engine = engine
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://tiny", timeout=30)

    async def complete(self, **body: Any) -> httpx.Response:
        """POST /v1/completions, greedy unless it says otherwise."""
        return await self.client.post("/v1/completions", json={"temperature": 0, "ignore_eos": True, **body})

    async def chat(self, **body: Any) -> httpx.Response:
        """POST /v1/chat/completions."""
        return await self.client.post("/v1/chat/completions", json={"temperature": 0, "ignore_eos": True, **body})

    def value(self, name: str, **labels: str) -> float | None:
        """A series' value."""
        who = {"model": IDENTITY.name, "version": IDENTITY.version, "digest": IDENTITY.digest}
        return self.service.metrics.registry.get_sample_value(name, {**who, **labels})

    async def quiet(self) -> None:
        """Returns when nothing runs any more; fails when that does not come to pass."""
        for _ in range(500):
            loaded = self.service.loaded
            idle = self.engine.idle and (loaded is None or loaded.loop.open == 0)
            if idle and self.service.in_flight == 0:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("something runs still")


@contextlib.asynccontextmanager
async def place(
    folder: Path,
    *,
    limits: dict[MetricName, float] | None = None,
    queue_length: int = 16,
    blocks: int = 130,
    max_sequences: int = 8,
    engine: Engine | None = None,
    loaded: bool = True,
) -> AsyncIterator[Place]:
    """An application; its engine's thread ends with the block."""
    engine = engine or make_engine(folder, blocks=blocks, max_sequences=max_sequences, eos=frozenset({tiny.END}))
    service = Service(IDENTITY, Metrics(IDENTITY, limits or {}, "0.0.1"), runtime_version="0.0.1")
    sizes = Sizes(MAX_MODEL_LEN, max_sequences, queue_length, blocks)
    model = Model(engine, sizes, Tokenizer(folder), load_template(folder), tiny.VOCABULARY)
    if loaded:
        service.loaded = assemble.start(model, service.metrics)
    one = Place(service, create_app(service), engine)
    try:
        yield one
    finally:
        await one.client.aclose()
        if service.loaded is not None:
            assert service.loaded.loop.stop(5)


def events(text: str) -> list[Any]:
    """The events of a stream's body, without its end."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


class Connection:
    """A client that reads as it goes and may hang up."""

    def __init__(self, app: ASGIApp, path: str, body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": [(b"content-type", b"application/json")],
            "client": ("test", 1),
            "server": ("test", 80),
            "state": {},
        }
        self._content: bytes | None = content
        self._gone = asyncio.Event()
        self.sent: asyncio.Queue[Message] = asyncio.Queue()
        self.task = asyncio.ensure_future(app(self._scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if self._content is not None:
            content, self._content = self._content, None
            return {"type": "http.request", "body": content, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if not self._gone.is_set():
            self.sent.put_nowait(message)

    def hang_up(self) -> None:
        """Closes the connection."""
        self._gone.set()


__all__ = ["IDENTITY", "MAX_MODEL_LEN", "Connection", "Place", "events", "place"]
