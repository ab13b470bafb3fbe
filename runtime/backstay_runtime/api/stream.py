"""Server-sent events: every 50 ms or 5 tokens, and never a success followed by silence."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from backstay_contract.names import Outcome
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from backstay_runtime.api.disconnect import ClientGoneError, unless_gone
from backstay_runtime.api.errors import ApiError
from backstay_runtime.api.record import Record
from backstay_runtime.api.run import Pieces

FLUSH_SECONDS = 0.05
FLUSH_TOKENS = 5

DONE = b"data: [DONE]\n\n"


def event(value: Mapping[str, Any]) -> bytes:
    """One event."""
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


class EventStream(Response):
    """A response whose events are produced while it is sent; its producer ends with the connection."""

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncGenerator[bytes, None], record: Record, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status_code = 200
        self.background = None
        self._events = events
        self._record = record
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no", **(headers or {})})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Sends the events, then the end; an ApiError becomes an event with the error object."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            await unless_gone(receive, self._send_all(send))
        except ClientGoneError:
            self._record.outcome, self._record.reason = Outcome.CANCELLED, "client_gone"
        finally:
            await self._events.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        try:
            async for one in self._events:
                await send({"type": "http.response.body", "body": one, "more_body": True})
        except ApiError as why:
            self._record.outcome, self._record.reason = Outcome.ERROR, why.code
            failed = event(why.body(self._record.trace_id)) + DONE
            await send({"type": "http.response.body", "body": failed, "more_body": True})


async def gathered(pieces: AsyncGenerator[Pieces, None]) -> AsyncGenerator[Pieces, None]:
    """Joins pieces that come faster than every FLUSH_SECONDS, at most FLUSH_TOKENS tokens of them.

    The first is passed on at once: the time to the first token is not ours to spend.
    """
    waiting: Pieces = []
    flushed = 0.0
    coming: asyncio.Task[Pieces] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(_next(pieces))
            left = flushed + FLUSH_SECONDS - time.monotonic() if waiting else None
            await asyncio.wait({coming}, timeout=None if left is None else max(0.0, left))
            if coming.done():
                arrived, coming = coming.result(), None
                if not arrived:
                    break
                waiting += arrived
            if _due(waiting, flushed):
                yield waiting
                waiting, flushed = [], time.monotonic()
        if waiting:
            yield waiting
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait({coming})
        await pieces.aclose()


async def _next(pieces: AsyncGenerator[Pieces, None]) -> Pieces:
    """The next pieces; empty at the end, which pieces never are."""
    return await anext(pieces, [])


def _due(waiting: Pieces, flushed: float) -> bool:
    tokens = sum(piece.tokens for _, piece in waiting)
    ends = any(piece.finish is not None for _, piece in waiting)
    return ends or tokens >= FLUSH_TOKENS or time.monotonic() - flushed >= FLUSH_SECONDS
