"""The HTTP port's application."""

from typing import Any

from backstay_contract.names import Outcome
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from backstay_runtime.api import body, chat, completions, encode, errors, openapi
from backstay_runtime.api.disconnect import ClientGoneError
from backstay_runtime.api.errors import ApiError
from backstay_runtime.api.health import Health
from backstay_runtime.api.middleware import Edge
from backstay_runtime.api.record import Record
from backstay_runtime.api.schemas import TokenizeRequest
from backstay_runtime.api.service import Service
from backstay_runtime.telemetry.metrics import CONTENT_TYPE


def guarded(app: FastAPI, service: Service) -> ASGIApp:
    """The application behind the outermost layer, with the error object for all that it raises."""

    async def refused(request: Request, why: Exception) -> Response:
        if isinstance(why, HTTPException):
            why = errors.from_http(why.status_code, str(why.detail))
        elif isinstance(why, ClientGoneError):
            _record(request).outcome = Outcome.CANCELLED
            why = errors.client_gone()
        elif not isinstance(why, ApiError):
            why = errors.internal()
        _record(request).reason = why.code
        return why.response(_record(request).trace_id)

    for kind in (HTTPException, ApiError, ClientGoneError, Exception):
        app.add_exception_handler(kind, refused)
    return Edge(app, service)


def create_app(service: Service) -> ASGIApp:
    """Generation, models, health and metrics."""
    app = FastAPI(openapi_url=None)
    health = Health(service)

    @app.post("/v1/completions")
    async def complete(request: Request) -> Response:
        return await completions.complete(request, service, _record(request))

    @app.post("/v1/chat/completions")
    async def converse(request: Request) -> Response:
        return await chat.chat(request, service, _record(request))

    @app.post("/v1/embeddings")
    async def embed(request: Request) -> Response:
        return await encode.embed(request, service, _record(request))

    @app.post("/classify")
    async def classify(request: Request) -> Response:
        return await encode.classify(request, service, _record(request))

    @app.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"object": "list", "data": [_card(service)]})

    @app.get("/v1/models/{name}")
    async def model(name: str) -> Response:
        service.check_model(name)
        return JSONResponse(_card(service))

    @app.post("/tokenize")
    async def tokenize(request: Request) -> Response:
        return JSONResponse(_tokenized(await body.read(request, TokenizeRequest), service))

    @app.get("/version")
    async def version() -> Response:
        who = service.identity
        return JSONResponse(
            {"version": service.runtime_version, "model": who.name, "modelVersion": who.version, "digest": who.digest}
        )

    @app.get("/openapi.json")
    async def described() -> Response:
        return JSONResponse(openapi.document(service.runtime_version))

    _add_probes(app, service, health)
    return guarded(app, service)


def _add_probes(app: FastAPI, service: Service, health: Health) -> None:
    @app.get("/healthz")
    async def alive() -> Response:
        return health.alive()

    @app.get("/readyz")
    async def ready() -> Response:
        return await health.ready()

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.exposition(), headers={"content-type": CONTENT_TYPE})


def _record(request: Request) -> Record:
    record: Record = request.scope["state"]["record"]
    return record


def _card(service: Service) -> dict[str, Any]:
    loaded, encoder, who = service.loaded, service.encoder, service.identity
    longest = encoder.tokenizer.longest if encoder is not None else None
    there = loaded or encoder
    return {
        "id": who.name,
        "object": "model",
        "created": 0 if there is None else there.created,
        "owned_by": "backstay",
        "version": who.version,
        "digest": who.digest,
        "max_model_len": longest if loaded is None else loaded.max_model_len,
    }


def _tokenized(asked: TokenizeRequest, service: Service) -> dict[str, Any]:
    loaded = service.need()
    service.check_model(asked.model)
    if asked.messages is not None:
        tokens = chat.render(asked.messages, loaded)
    else:
        tokens = loaded.tokenizer.encode(asked.prompt or "", add_special=asked.add_special_tokens)
    return {"tokens": tokens, "count": len(tokens), "max_model_len": loaded.max_model_len}
