"""/healthz: does the process live; /readyz: does the model answer."""

import asyncio
import logging
import time

from backstay_contract.mode import Mode
from starlette.responses import JSONResponse, Response

from backstay_runtime.api.errors import ApiError, draining, loading
from backstay_runtime.api.service import Encoder, Loaded, Service
from backstay_runtime.encoding import EncoderDeadError, NotFiniteError
from backstay_runtime.loop import Delivery, EngineDeadError, Wish
from backstay_runtime.sampling.params import SamplingParams

_log = logging.getLogger(__name__)

PROBE_SECONDS = 4.0
"""How long the one token may take: less than a kubelet waits (5 s), so that it hears the reason."""

PROGRESS_SECONDS = 10.0
"""While requests run, a token in this time is proof enough: a busy server must not wait for a probe to be ready."""

STUCK_SECONDS = 60.0
"""A step that lasts this long will not end: the process should be restarted."""

FRESH_SECONDS = 1.0
"""A probe's answer is good for this long, so that many checkers cost one probe."""


class Health:
    """Probes the engine with one token, one probe at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._probe: asyncio.Task[str | None] | None = None
        self._answer: tuple[float, str | None] | None = None

    def alive(self) -> Response:
        """200, or 503 when only a restart can help."""
        there = self._service.loaded or self._service.encoder
        if there is not None:
            if there.loop.dead is not None:
                raise ApiError(503, f"the engine has stopped: {there.loop.dead}", code="engine_dead")
            stalled = there.loop.stalled(time.monotonic())
            if stalled > STUCK_SECONDS:
                raise ApiError(503, f"a step of the engine has lasted {stalled:.0f} s", code="engine_stuck")
        return JSONResponse({"status": "ok"})

    async def ready(self) -> Response:
        """200 with model, version and digest after a token has been generated, else 503 with the reason."""
        service = self._service
        if service.mode is Mode.DRAINING:
            raise draining()
        there = service.loaded or service.encoder
        if there is None:
            raise loading()
        said = await self._probed(there)
        if said is not None:
            raise ApiError(503, said, code="not_ready", retry_after=1)
        who = service.identity
        return JSONResponse(
            {"ready": True, "model": who.name, "version": who.version, "digest": who.digest, "mode": service.mode}
        )

    async def _probed(self, loaded: Loaded | Encoder) -> str | None:
        """What is wrong, or None."""
        now = time.monotonic()
        if isinstance(loaded, Loaded) and _gets_on(loaded, now):
            return None
        if self._answer is not None and self._answer[1] is None and now - self._answer[0] < FRESH_SECONDS:
            return None
        if self._probe is None or self._probe.done():
            self._probe = asyncio.ensure_future(probe(loaded) if isinstance(loaded, Loaded) else probe_encoder(loaded))
        # Shielded: a checker that goes away must not end the probe of the others.
        said = await asyncio.shield(self._probe)
        self._answer = (time.monotonic(), said)
        return said


def _gets_on(loaded: Loaded, now: float) -> bool:
    """Whether tokens flow: a busy server must not wait for a probe to be ready."""
    return loaded.loop.dead is None and loaded.loop.open > 0 and loaded.loop.since_token(now) < PROGRESS_SECONDS


async def probe(loaded: Loaded) -> str | None:
    """Generates one token outside queue and metrics. What is wrong, or None."""
    deliveries: asyncio.Queue[Delivery] = asyncio.Queue()
    wish = Wish(prompt=[0], params=SamplingParams(max_tokens=1, temperature=0.0), arrival=time.monotonic(), probe=True)
    try:
        tickets = loaded.loop.submit([wish], deliveries.put_nowait)
    except EngineDeadError as why:
        return f"the engine has stopped: {why}"
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            output = (await deliveries.get()).output
    except TimeoutError:
        stalled = loaded.loop.stalled(time.monotonic())
        return f"no token within {PROBE_SECONDS:g} s; the engine's present step has lasted {stalled:.1f} s"
    finally:
        loaded.loop.abort(tickets)
    if output.token is None:
        return f"the model's one-token inference failed: {output.finish}"
    return None


async def probe_encoder(encoder: Encoder) -> str | None:
    """Encodes one token outside the queue's limit and the metrics. What is wrong, or None."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await encoder.loop.encode([[0]], probe=True)
    except TimeoutError:
        stalled = encoder.loop.stalled(time.monotonic())
        return f"no answer within {PROBE_SECONDS:g} s; the encoder's present batch has lasted {stalled:.1f} s"
    except (EncoderDeadError, NotFiniteError) as why:
        return f"the model's one-token inference failed: {why}"
    except Exception:
        _log.exception("the readiness probe failed")
        return "the model's one-token inference failed; the log says how"
    return None
