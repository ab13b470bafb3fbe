"""The gRPC server: calls in, answers and errors out, and connections that follow the Service's selector."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import grpc
from backstay_contract.mode import Mode
from google.protobuf.message import Message
from starlette.types import ASGIApp

from backstay_runtime.api.body import MAX_BYTES
from backstay_runtime.api.service import Service
from backstay_runtime.rpc import inference_pb2 as pb
from backstay_runtime.rpc import messages
from backstay_runtime.rpc.inside import Exchange

_log = logging.getLogger(__name__)

SERVICE = "backstay.inference.v1.Inference"
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
AWAY_SECONDS = 5
"""How long a connection may live on a server that clients should leave."""
LONGEST_CALL = 3600.0
"""Seconds that running calls are given when their connection is told to go."""
_PASSED_ON = ("traceparent", "x-request-id", "x-trace-id")

Context = grpc.aio.ServicerContext[Any, Any]
Bodies = Callable[[Any], dict[str, Any]]
Replies = Callable[[Mapping[str, Any]], Message]


class RpcServer:
    """Listens beside the HTTP port. HTTP/2 connections are long: when this server's colour loses, they are told to go
    at once, and calls that run on them finish."""

    def __init__(self, service: Service, app: ASGIApp, address: str) -> None:
        """`address`: host:port; port 0 takes a free one."""
        self._service = service
        self._app = app
        self._host, _, port = address.rpartition(":")
        self.port = int(port)
        self._server: grpc.aio.Server | None = None
        self._leaving: set[asyncio.Future[None]] = set()
        service.when_mode_changes(self._mode_changed)

    async def start(self) -> None:
        """Listens. Raises OSError when the port is taken."""
        options: list[tuple[str, Any]] = [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", MAX_BYTES),
        ]
        if self._service.mode in (Mode.STANDBY, Mode.DRAINING):
            options.append(("grpc.max_connection_age_ms", AWAY_SECONDS * 1000))
        server = grpc.aio.server(options=options)
        server.add_generic_rpc_handlers((self._handlers(),))
        try:
            self.port = server.add_insecure_port(f"{self._host}:{self.port}")
        except RuntimeError as why:
            raise OSError(f"{self._host}:{self.port}: {why}") from why
        await server.start()
        self._server = server

    async def stop(self, grace: float) -> None:
        """Ends what still runs after `grace` seconds."""
        if self._server is not None:
            await self._server.stop(grace)
        for one in self._leaving:
            one.cancel()

    def _mode_changed(self, _: Mode) -> None:
        if self._server is not None:
            task = asyncio.ensure_future(self._renew())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _renew(self) -> None:
        """Sends everybody away who is connected, and listens again with the present mode's patience."""
        old, self._server = self._server, None
        if old is None:
            return
        going = asyncio.ensure_future(old.stop(LONGEST_CALL))
        self._leaving.add(going)
        going.add_done_callback(self._leaving.discard)
        await asyncio.sleep(0)  # the old one closes its socket before the new one opens it
        try:
            await self.start()
        except OSError as why:
            _log.error("the gRPC port could not be opened again: %s", why)

    def _handlers(self) -> grpc.GenericRpcHandler:
        def unary(path: str, asks: type[Message], body: Bodies, reply: Replies) -> "grpc.RpcMethodHandler[Any, Any]":
            async def call(request: Any, context: Context) -> Message:
                return reply(await self._whole(path, body(request), context))

            return grpc.unary_unary_rpc_method_handler(
                call, request_deserializer=asks.FromString, response_serializer=_bytes
            )

        def streamed(path: str, asks: type[Message], body: Bodies, reply: Replies) -> "grpc.RpcMethodHandler[Any, Any]":
            async def call(request: Any, context: Context) -> AsyncGenerator[Message, None]:
                asked = {**body(request), "stream": True, "stream_options": {"include_usage": True}}
                async for event in self._events(path, asked, context):
                    yield reply(event)

            return grpc.unary_stream_rpc_method_handler(
                call, request_deserializer=asks.FromString, response_serializer=_bytes
            )

        complete = (COMPLETIONS, pb.CompletionRequest, messages.completion_body, messages.completion_reply)
        chat = (CHAT, pb.ChatRequest, messages.chat_body, messages.chat_reply)
        methods = {
            "Complete": unary(*complete),
            "CompleteStream": streamed(*complete),
            "Chat": unary(*chat),
            "ChatStream": streamed(*chat),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def _whole(self, path: str, body: dict[str, Any], context: Context) -> dict[str, Any]:
        async with Exchange(self._app, path, _in_time(body, context), _headers(context)) as exchange:
            answer = await exchange.body()
            context.set_trailing_metadata(_trailers(exchange))
            if exchange.status != 200:
                await _refuse(context, exchange, answer["error"])
            return answer

    async def _events(self, path: str, body: dict[str, Any], context: Context) -> AsyncGenerator[dict[str, Any], None]:
        async with Exchange(self._app, path, _in_time(body, context), _headers(context)) as exchange:
            context.set_trailing_metadata(_trailers(exchange))
            if exchange.status != 200:
                await _refuse(context, exchange, (await exchange.body())["error"])
            async for event in exchange.events():
                if "error" in event:
                    await context.abort(messages.code_of(event["error"]["code"]), event["error"]["message"])
                yield event


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()


def _in_time(body: dict[str, Any], context: Context) -> dict[str, Any]:
    """The call's own deadline is the request's too."""
    left = context.time_remaining()
    if left is None:
        return body
    given = body.get("timeout")
    return {**body, "timeout": max(0.001, left if given is None else min(left, given))}


def _headers(context: Context) -> dict[str, str]:
    given = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
    return {key: given[key] for key in _PASSED_ON if key in given}


def _trailers(exchange: Exchange) -> tuple[tuple[str, str], ...]:
    names = ("x-model-digest", "x-trace-id", "retry-after")
    return tuple((name, exchange.headers[name]) for name in names if name in exchange.headers)


async def _refuse(context: Context, exchange: Exchange, error: Mapping[str, Any]) -> None:
    trailers = (*_trailers(exchange), ("error-code", str(error["code"])))
    await context.abort(messages.code_of(exchange.status), error["message"], trailers)
