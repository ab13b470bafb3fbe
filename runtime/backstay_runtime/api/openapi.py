"""The OpenAPI document of the HTTP port, made from the types that requests are checked with."""

from typing import Any

from pydantic import BaseModel

from backstay_runtime.api.schemas import (
    MAX_PROMPTS,
    MAX_TEXTS,
    ChatRequest,
    ClassifyRequest,
    CompletionRequest,
    EmbeddingsRequest,
    TokenizeRequest,
)

Json = dict[str, Any]

_REF = "#/components/schemas/{model}"
_TEXT: Json = {"type": "string", "minLength": 1}
_IDS: Json = {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}
_ERROR: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code", "trace_id"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string", "enum": ["invalid_request_error", "server_error", "unavailable_error"]},
                "param": {"type": ["string", "null"]},
                "code": {"type": "string"},
                "trace_id": {"type": ["string", "null"]},
            },
        }
    },
}
_FAILURES = {
    "400": "The request is wrong; the message names the field, its value and the limit.",
    "404": "The model is not served here.",
    "413": "The body is larger than what is read.",
    "431": "The headers are more than what is read.",
    "500": "The model's output is not finite, or a fault of ours.",
    "503": "The queue is full, or the server loads or drains: Retry-After says when to come back.",
    "504": "The deadline passed.",
}


def _texts(most: int) -> Json:
    """A text or up to so many, as they are or as token ids."""
    several = {"type": "array", "minItems": 1, "maxItems": most}
    return {
        "description": "A text, several, a text's token ids, or those of several.",
        "oneOf": [_TEXT, {**several, "items": _TEXT}, _IDS, {**several, "items": _IDS}],
    }


def document(version: str) -> Json:
    """The whole document."""
    schemas: Json = {"Error": _ERROR}
    asks: dict[str, tuple[type[BaseModel], str, Json]] = {
        "/v1/completions": (CompletionRequest, "Continues a text.", _answer("text_completion")),
        "/v1/chat/completions": (ChatRequest, "Answers a chat.", _answer("chat.completion")),
        "/v1/embeddings": (EmbeddingsRequest, "Each text's vector, from an encoder.", _vectors()),
        "/classify": (ClassifyRequest, "Each text's classes, from a classifier.", _classes()),
        "/tokenize": (TokenizeRequest, "A text's token ids.", _counted()),
    }
    paths: Json = {path: {"post": _post(*said, schemas)} for path, said in asks.items()}
    schemas["CompletionRequest"]["properties"]["prompt"] = _texts(MAX_PROMPTS)
    schemas["CompletionRequest"]["required"] = ["prompt"]
    for name in ("EmbeddingsRequest", "ClassifyRequest"):
        schemas[name]["properties"]["input"] = _texts(MAX_TEXTS)
    paths |= {
        "/v1/models": _get("The one model that is served."),
        "/version": _get("Versions of runtime and model, and the digest."),
        "/healthz": _get("The process lives.", "503"),
        "/readyz": _get("The model answers; names its digest.", "503"),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Backstay's inference runtime", "version": version},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _post(model: type[BaseModel], summary: str, answer: Json, schemas: Json) -> Json:
    schema = model.model_json_schema(ref_template=_REF)
    schemas |= schema.pop("$defs", {})
    schemas[model.__name__] = schema
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": _REF.format(model=model.__name__)}}}}
    return {"summary": summary, "requestBody": body, "responses": {"200": answer, **_failures(*_FAILURES)}}


def _get(summary: str, *failures: str) -> Json:
    shown = {"description": summary, "content": {"application/json": {"schema": {"type": "object"}}}}
    return {"get": {"summary": summary, "responses": {"200": shown, **_failures(*failures)}}}


def _failures(*statuses: str) -> Json:
    content = {"application/json": {"schema": {"$ref": _REF.format(model="Error")}}}
    return {status: {"description": _FAILURES[status], "content": content} for status in statuses}


def _answer(kind: str) -> Json:
    schema = {
        "type": "object",
        "required": ["id", "object", "created", "model", "choices", "usage"],
        "properties": {
            "id": {"type": "string"},
            "object": {"const": kind},
            "created": {"type": "integer"},
            "model": {"type": "string"},
            "choices": {"type": "array", "items": {"type": "object", "required": ["index", "finish_reason"]}},
            "usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens"]},
        },
    }
    # Before OpenAPI 3.2 the schema of a stream is that of one event.
    event = {
        "type": "object",
        "description": "One event: a chunk of the answer as JSON, an error as JSON, or [DONE].",
        "required": ["data"],
        "properties": {"data": {"type": "string"}},
    }
    streamed = {"text/event-stream": {"schema": event}}
    return {"description": "The answer.", "content": {"application/json": {"schema": schema}, **streamed}}


def _counted() -> Json:
    properties = {"tokens": {"type": "array", "items": {"type": "integer"}}, "count": {"type": "integer"}}
    schema = {"type": "object", "required": ["tokens", "count"], "properties": properties}
    return {"description": "The ids.", "content": {"application/json": {"schema": schema}}}


def _vectors() -> Json:
    numbers = [{"type": "array", "items": {"type": "number"}}, {"type": "string", "contentEncoding": "base64"}]
    properties = {
        "object": {"const": "embedding"},
        "index": {"type": "integer"},
        "embedding": {"description": "With encoding_format base64: little-endian float32.", "oneOf": numbers},
    }
    return _of_each_text("The vectors, in the order of the texts.", properties)


def _classes() -> Json:
    properties = {
        "index": {"type": "integer"},
        "label": {"type": "string"},
        "score": {"type": "number"},
        "scores": {"type": "object", "additionalProperties": {"type": "number"}},
    }
    return _of_each_text("The classes, in the order of the texts; `label` is the likeliest.", properties)


def _of_each_text(description: str, properties: Json) -> Json:
    item = {"type": "object", "required": list(properties), "properties": properties}
    schema = {
        "type": "object",
        "required": ["object", "data", "model", "usage"],
        "properties": {
            "object": {"const": "list"},
            "data": {"type": "array", "items": item},
            "model": {"type": "string"},
            "usage": {"type": "object", "required": ["prompt_tokens", "total_tokens"]},
        },
    }
    return {"description": description, "content": {"application/json": {"schema": schema}}}
