"""Between the messages of inference.proto and the JSON of the HTTP endpoints. Pure."""

from collections.abc import Mapping
from typing import Any, TypeVar

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message

from backstay_runtime.rpc import inference_pb2 as pb

M = TypeVar("M", bound=Message)

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    431: grpc.StatusCode.INVALID_ARGUMENT,
    499: grpc.StatusCode.CANCELLED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


def code_of(status: int | str) -> grpc.StatusCode:
    """What an HTTP status, or an error's code in a stream, is called in gRPC."""
    if isinstance(status, str):
        status = {"deadline_exceeded": 504, "draining": 503}.get(status, 500)
    return _CODES.get(status, grpc.StatusCode.INTERNAL)


def completion_body(request: pb.CompletionRequest) -> dict[str, Any]:
    """The body of /v1/completions that asks for the same."""
    body = _options(request.options)
    if request.HasField("model"):
        body["model"] = request.model
    given = request.WhichOneof("input")
    if given is not None:
        body["prompt"] = request.prompt if given == "prompt" else list(request.tokens.ids)
    return body


def chat_body(request: pb.ChatRequest) -> dict[str, Any]:
    """The body of /v1/chat/completions that asks for the same."""
    body = _options(request.options)
    if request.HasField("model"):
        body["model"] = request.model
    body["messages"] = [{"role": one.role, "content": one.content} for one in request.messages]
    return body


def _options(options: pb.Options) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for field, value in options.ListFields():
        if field.name == "logit_bias":
            body[field.name] = dict(value)
        else:
            body[field.name] = list(value) if field.name == "stop" else value
    return body


def completion_reply(answer: Mapping[str, Any]) -> pb.CompletionReply:
    """An answer, or an event of a stream, as a message."""
    return _parsed(answer, pb.CompletionReply())


def chat_reply(answer: Mapping[str, Any]) -> pb.ChatReply:
    """An answer, or an event of a stream, as a message."""
    choices = [
        {key: value for key, value in choice.items() if key != "delta"}
        | {"message": choice.get("message") or choice.get("delta") or {}}
        for choice in answer["choices"]
    ]
    return _parsed({**answer, "choices": choices}, pb.ChatReply())


def _parsed(answer: Mapping[str, Any], into: M) -> M:
    return json_format.ParseDict(dict(answer), into, ignore_unknown_fields=True)
