"""A pod that only plays the runtime: the same HTTP, and requests that are counted instead of served.

A fake for tests of the operator on a real API server without a node; the real runtime is tested elsewhere.
"""

import hashlib
import itertools
import math
import random
import time
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from backstay_contract.metric import PERPLEXITY_TOLERANCE, MetricName
from backstay_contract.names import Header, Outcome, Port, RuntimeMetric, format_limit
from backstay_contract.termination import Termination
from backstay_judge import ROUND_SERIES, EvaluatedItem, Round, round_of


@dataclass(frozen=True)
class Behaviour:
    """How the pods of one model version behave."""

    start_seconds: float = 0.1
    gives_up: Termination | None = None
    """The init container ends with this message, again and again."""
    waits: tuple[str, str] | None = None
    """The serving container waits for ever, with this reason and message."""
    slow: float = 0.0
    """Fraction of requests beyond the latency limit."""
    errors: float = 0.0
    says_digest: str | None = None
    """The digest it answers with; None: the right one."""
    smoke_seconds: float = 0.0
    unready: bool = False
    """It runs and never becomes ready."""
    dies_after: int | None = None
    """Requests after which its container is killed for memory."""
    crashes: int = 0
    """Times that its container ended with exit code 1 before it was reported."""
    breaks: bool = False
    """Its numbers are not finite: each request is answered with that error."""
    dark: bool = False
    """Its /metrics answers 500."""
    perplexity: float | None = None
    """Its perplexity on its evaluation set; None: its manifest has no set."""
    stream_seconds: float = 0.0
    """A request that is still under way for so long after the flip away from it."""


HEALTHY = Behaviour()
RECORDED_PERPLEXITY = 20.0
EVALUATION_ITEMS = 10
NOT_FINITE = "non_finite_logits"


@dataclass
class FakeRuntime:
    """One running pod."""

    name: str
    env: dict[str, str]
    behaviour: Behaviour
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    mode: str = "normal"
    modes: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.time)
    judged: int = 0
    slow: int = 0
    ok: int = 0
    errors: int = 0
    smokes: int = 0
    state_requests: int = 0
    read_at: list[float] = field(default_factory=list)
    """When its metrics were read."""
    holds_until: float = 0.0
    ready: bool = False
    """What its readiness probe finds; a test may change it while the pod runs."""
    served: Any = field(default_factory=itertools.count)

    @property
    def version(self) -> str:
        return self.env["BACKSTAY_MODEL_VERSION"]

    @property
    def digest(self) -> str:
        return self.env["BACKSTAY_MODEL_DIGEST"]

    @property
    def in_flight(self) -> int:
        return int(time.time() < self.holds_until)

    def request(self) -> None:
        """One request of a client."""
        next(self.served)
        if self.behaviour.stream_seconds and not self.holds_until:
            self.holds_until = time.time() + self.behaviour.stream_seconds
        if self.chance.random() < self.behaviour.errors:
            self.errors += 1
            return
        self.ok += 1
        self.judged += 1
        self.slow += self.chance.random() < self.behaviour.slow

    def app(self) -> web.Application:
        app = web.Application()
        app.add_routes(
            [web.post("/v1/completions", self._complete), web.get("/metrics", self._metrics)],
        )
        return app

    def control_app(self) -> web.Application:
        app = web.Application()
        app.add_routes([web.get("/control/state", self._state), web.put("/control/mode", self._set_mode)])
        app.add_routes([web.get("/control/evaluation", self._evaluation)])
        return app

    async def _complete(self, request: web.Request) -> web.Response:
        self.smokes += 1
        body = await request.json()
        if self.behaviour.smoke_seconds:
            import asyncio

            await asyncio.sleep(self.behaviour.smoke_seconds)
        if self.behaviour.breaks:
            error = {"message": "numbers are not finite", "type": "server_error", "code": NOT_FINITE}
            return web.json_response({"error": error}, status=500)
        said = self.behaviour.says_digest or self.digest
        answer = {"object": "text_completion", "model": body["model"], "choices": [{"index": 0, "text": " Paris"}]}
        return web.json_response(answer, headers={Header.DIGEST: said})

    async def _metrics(self, _: web.Request) -> web.Response:
        self.read_at.append(time.time())
        if self.behaviour.dark:
            return web.Response(status=500)
        return web.Response(text=self.exposition())

    def exposition(self) -> str:
        of = f'model="{self.env["BACKSTAY_MODEL_NAME"]}",version="{self.version}",digest="{self.digest}"'
        lines = [f"process_start_time_seconds {self.started}"]
        lines += [
            f'{RuntimeMetric.FINISHED}{{{of},outcome="{outcome}"}} {count}'
            for outcome, count in ((Outcome.OK, self.ok), (Outcome.ERROR, self.errors), (Outcome.CANCELLED, 0))
        ]
        for metric, limit in self.limits().items():
            if metric in (MetricName.ERROR_RATE, MetricName.PERPLEXITY):
                continue
            label = f'{of},metric="{metric}"'
            lines.append(f"{RuntimeMetric.JUDGED}{{{label}}} {self.judged}")
            lines.append(f'{RuntimeMetric.SLOW}{{{label},limit="{format_limit(limit)}"}} {self.slow}')
        if (last := self.round()) is not None and last.excess is not None:
            excess = last.excess
            values = (last.items, last.broken, last.recorded, excess.mean, excess.error, excess.degrees)
            lines.append(f"{RuntimeMetric.EVALUATION_ROUNDS}{{{of}}} 1")
            lines += [f"{name}{{{of}}} {value}" for name, value in zip(ROUND_SERIES, values, strict=True)]
        return "\n".join(lines) + "\n"

    def evaluated(self) -> list[EvaluatedItem]:
        """Texts of 50 tokens, all with the same loss."""
        if self.behaviour.perplexity is None:
            return []
        recorded, now = (50 * math.log(value) for value in (RECORDED_PERPLEXITY, self.behaviour.perplexity))
        return [EvaluatedItem(recorded, now, 50)] * EVALUATION_ITEMS

    def round(self) -> Round | None:
        return round_of(self.evaluated()) if self.behaviour.perplexity is not None else None

    async def _evaluation(self, request: web.Request) -> web.Response:
        if not self._allowed(request):
            return web.Response(status=401)
        found = [{"recordedNll": one.recorded_nll, "nll": one.nll, "tokens": one.tokens} for one in self.evaluated()]
        return web.json_response({"found": found})

    def limits(self) -> dict[str, float]:
        import json

        limits: dict[str, float] = json.loads(self.env["BACKSTAY_LIMITS"])
        if self.behaviour.perplexity is not None:
            limits.setdefault(MetricName.PERPLEXITY, RECORDED_PERPLEXITY * PERPLEXITY_TOLERANCE)
        return limits

    def _allowed(self, request: web.Request) -> bool:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return hashlib.sha256(token.encode()).hexdigest() == self.env["BACKSTAY_CONTROL_TOKEN_SHA256"]

    async def _state(self, request: web.Request) -> web.Response:
        self.state_requests += 1
        if not self._allowed(request):
            return web.Response(status=401)
        return web.json_response(self._said())

    async def _set_mode(self, request: web.Request) -> web.Response:
        if not self._allowed(request):
            return web.Response(status=401)
        self.mode = (await request.json())["mode"]
        self.modes.append(self.mode)
        return web.json_response(self._said())

    def _said(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "inFlight": self.in_flight,
            "digest": self.digest,
            "model": self.env["BACKSTAY_MODEL_NAME"],
            "version": self.version,
            "limits": self.limits(),
            "evaluation": {"items": len(self.evaluated()), "done": 0, "rounds": 1, "problem": ""},
        }


PORTS = (Port.HTTP, Port.CONTROL)
