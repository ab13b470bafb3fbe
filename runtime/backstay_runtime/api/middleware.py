"""The outermost layer: limits on what comes in, headers on what goes out, one end record per request."""

import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable

from backstay_contract.mode import Mode
from backstay_contract.names import Header, Outcome
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backstay_runtime.api.body import MAX_BYTES
from backstay_runtime.api.errors import ApiError
from backstay_runtime.api.record import Record
from backstay_runtime.api.service import Service
from backstay_runtime.telemetry.logs import with_fields

_log = logging.getLogger("backstay_runtime.requests")

GENERATING = frozenset({"/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/classify"})
"""Paths whose requests are counted, timed and waited for when draining."""
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
MAX_HEADERS = 100
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_TRACE = re.compile(r"[A-Za-z0-9._-]{1,64}")


def trace_of(headers: dict[bytes, bytes]) -> str:
    """The caller's trace id (W3C traceparent, or the trace header), else a new one."""
    parent = _TRACEPARENT.fullmatch(headers.get(b"traceparent", b"").decode("latin-1"))
    if parent is not None:
        return parent[1]
    given = headers.get(Header.TRACE.encode(), headers.get(b"x-request-id", b"")).decode("latin-1")
    return given if _TRACE.fullmatch(given) else uuid.uuid4().hex


class Edge:
    """Wraps an application; every answer leaves through it."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        record = Record(trace_id=trace_of(headers), arrival=time.monotonic())
        scope.setdefault("state", {})["record"] = record
        exchange = Exchange(self._service, record, send)
        generating = scope["method"] == "POST" and scope["path"] in GENERATING
        if generating:
            self._service.begin()
        try:
            await self._answer(scope, headers, receive, exchange)
        finally:
            if generating:
                self._service.end()
                self._count(record, exchange.status)
            if scope["path"] not in _QUIET:
                self._write(scope, record, exchange.status)

    async def _answer(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, exchange: "Exchange") -> None:
        record = exchange.record
        try:
            _check_headers(scope, headers)
            await self._app(scope, _limited(receive), exchange.send)
        except ApiError as why:
            record.reason = why.code
            await why.response(record.trace_id)(scope, receive, exchange.send)
        except Exception:
            # Answered already, by the application's last handler or by the bytes that were sent before.
            _log.exception("a request failed", extra=with_fields(trace_id=record.trace_id))
            record.outcome, record.reason = Outcome.ERROR, "internal_error"
        except BaseException:
            # Cancelled from outside, with the process's end: the answer is cut.
            record.outcome, record.reason = record.outcome or Outcome.ERROR, record.reason or "cut"
            raise

    def _count(self, record: Record, status: int | None) -> None:
        record.outcome = record.outcome or outcome_of(status)
        if record.tracker is not None:
            record.tracker.finish(record.outcome)
        (record.served or self._service.served).metrics.count_finished(record.outcome)

    def _write(self, scope: Scope, record: Record, status: int | None) -> None:
        _log.info(
            "request ended",
            extra=with_fields(
                trace_id=record.trace_id,
                method=scope["method"],
                path=scope["path"][:200],
                status=status,
                outcome=record.outcome or outcome_of(status),
                reason=record.reason,
                stream=record.stream or None,
                seconds=round(time.monotonic() - record.arrival, 6),
                prompt_tokens=record.prompt_tokens,
                completion_tokens=record.completion_tokens,
                digest=(record.served or self._service.served).identity.digest,
            ),
        )


class Exchange:
    """One request's way out."""

    def __init__(self, service: Service, record: Record, send: Send) -> None:
        self._service = service
        self.record = record
        self._send = send
        self.status: int | None = None
        """Of the answer, once it has begun."""

    async def send(self, message: Message) -> None:
        """Passes a message on, with our headers on its first."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", []), *self._headers()]}
        await self._send(message)

    def _headers(self) -> list[tuple[bytes, bytes]]:
        served = self.record.served or self._service.served
        headers = [
            (Header.DIGEST.encode(), served.identity.digest.encode()),
            (Header.TRACE.encode(), self.record.trace_id.encode()),
        ]
        if self._service.mode in (Mode.STANDBY, Mode.DRAINING):
            headers.append((b"connection", b"close"))  # the next request should reach another server
        return headers


def outcome_of(status: int | None) -> str:
    """What an answer's status says; None: there was none."""
    if status is None:
        return Outcome.CANCELLED
    if status < 400:
        return Outcome.OK
    return Outcome.REJECTED if status < 500 or status == 503 else Outcome.ERROR


def _check_headers(scope: Scope, headers: dict[bytes, bytes]) -> None:
    if len(scope["headers"]) > MAX_HEADERS:
        raise ApiError(431, f"{len(scope['headers'])} headers are more than {MAX_HEADERS}", code="too_many_headers")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > MAX_BYTES:
        raise _too_large()


def _too_large() -> ApiError:
    return ApiError(413, f"the body is larger than the {MAX_BYTES} bytes that are read", code="body_too_large")


def _limited(receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Counts a body that does not say how long it is."""
    read = 0

    async def counted() -> Message:
        nonlocal read
        message = await receive()
        if message["type"] == "http.request":
            read += len(message.get("body", b""))
            if read > MAX_BYTES:
                raise _too_large()
        return message

    return counted
