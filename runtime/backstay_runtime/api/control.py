"""The control port: an authenticated operator reads the state and sets the mode."""

import hashlib
import hmac
import math
from typing import Annotated, Any, Protocol

from backstay_contract import digest as digests
from backstay_contract.mode import Mode
from fastapi import FastAPI, Request
from pydantic import AfterValidator, BaseModel, ConfigDict
from starlette.responses import JSONResponse, Response

from backstay_runtime.api import body, errors
from backstay_runtime.api.errors import ApiError
from backstay_runtime.api.service import Service


class ModeRequest(BaseModel):
    """Body of PUT /control/mode."""

    model_config = ConfigDict(extra="forbid")

    mode: Mode


def _authorise(request: Request, token_sha256: str | None) -> None:
    """Raises ApiError 401 unless the bearer token's SHA-256 is the one that this process was given."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    found = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).hexdigest()
    if token_sha256 is None or scheme.lower() != "bearer" or not hmac.compare_digest(found, token_sha256):
        raise ApiError(401, "the control port needs its bearer token", code="unauthorized")


def _state(service: Service) -> dict[str, Any]:
    who = service.identity
    return {
        "mode": service.mode,
        "inFlight": service.in_flight,
        "digest": who.digest,
        "model": who.name,
        "version": who.version,
        "limits": service.limits,
        "evaluation": _evaluation(service),
    }


def _evaluation(service: Service) -> dict[str, Any]:
    """How far the evaluation is; without a set, items is 0."""
    state = service.metrics.evaluation.read()
    return {"items": state.items, "done": state.done, "rounds": state.rounds, "problem": state.problem}


def _evaluated(service: Service) -> dict[str, Any]:
    """The last whole round, text by text; null for a loss that is not a number, which JSON has no word for."""
    found = service.metrics.evaluation.read().found
    items = [
        {
            "recordedNll": item.recorded_nll,
            "nll": item.nll if math.isfinite(item.nll) else None,
            "tokens": item.tokens,
        }
        for item in found
    ]
    return _evaluation(service) | {"found": items}


class SwapRequest(BaseModel):
    """Body of POST /control/swap: the model that should answer next. Its folder must be there already."""

    model_config = ConfigDict(extra="forbid")

    digest: Annotated[str, AfterValidator(digests.normalise)]
    version: str | None = None


class Swaps(Protocol):
    """Loads another model beside the present one."""

    def begin(self, digest: str, version: str | None) -> None:
        """Starts; raises ApiError 409 where it cannot."""
        ...

    def state(self) -> dict[str, Any]:
        """How far it is."""
        ...


def create_control(service: Service, token_sha256: str | None, swaps: Swaps | None = None) -> FastAPI:
    """The control port's application."""
    app = FastAPI(openapi_url=None)

    @app.get("/control/state")
    async def state(request: Request) -> Response:
        _authorise(request, token_sha256)
        return JSONResponse(_state(service))

    @app.get("/control/evaluation")
    async def evaluation(request: Request) -> Response:
        _authorise(request, token_sha256)
        return JSONResponse(_evaluated(service))

    @app.put("/control/mode")
    async def mode(request: Request) -> Response:
        _authorise(request, token_sha256)
        asked = await body.read(request, ModeRequest)
        if service.terminating:
            raise errors.ApiError(409, "the process is ending and stays draining", code="terminating", param="mode")
        service.set_mode(asked.mode)
        return JSONResponse(_state(service))

    @app.post("/control/swap")
    async def swap(request: Request) -> Response:
        _authorise(request, token_sha256)
        asked = await body.read(request, SwapRequest)
        if swaps is None:
            raise errors.ApiError(409, "this process does not swap models", code="not_swappable")
        swaps.begin(asked.digest, asked.version)
        return JSONResponse(swaps.state(), status_code=202)

    @app.get("/control/swap")
    async def swapping(request: Request) -> Response:
        _authorise(request, token_sha256)
        return JSONResponse({"state": "none"} if swaps is None else swaps.state())

    return app
