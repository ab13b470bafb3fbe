"""Clients of a server that streams chat completions, whoever wrote it: what each of them saw, and the sums of it."""

import asyncio
import json
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2 as httpx

WORDS = (
    "ship",
    "sails",
    "home",
    "past",
    "rocks",
    "and",
    "light",
    "while",
    "gulls",
    "cry",
    "over",
    "grey",
    "water",
    "near",
)
MIX = ((0.2, (5, 10)), (0.5, (10, 100)), (0.3, (100, 400)))
"""Share and words of short, medium and long prompts."""

TIMEOUT = 120.0
"""Seconds without a byte after which a request has failed."""


@dataclass(frozen=True)
class Seen:
    """One request as its client saw it; seconds since it was sent."""

    times: tuple[float, ...]
    """Of each piece of text, which may hold several tokens."""
    end: float
    tokens: int = 0
    error: str | None = None

    @property
    def ttft(self) -> float:
        """Time to the first piece."""
        return self.times[0]

    @property
    def tpot(self) -> float:
        """Time per further token."""
        return (self.times[-1] - self.times[0]) / max(1, self.tokens - 1)

    @property
    def gaps(self) -> list[float]:
        """Between pieces."""
        return [after - before for before, after in zip(self.times, self.times[1:], strict=False)]


@dataclass(frozen=True)
class Target:
    """A server and what it calls its model."""

    name: str
    url: str
    model: str
    asks: Mapping[str, Any] = field(default_factory=lambda: {"ignore_eos": True})
    """How it is told that a text ends only with its length."""


Turn = tuple[Sequence[Seen], float]
"""The requests of a turn, and the seconds until the last was answered."""


def prompts(count: int, seed: int, words: tuple[int, int] | None = None) -> list[str]:
    """Ordinary words; without `words` of lengths as in MIX. Each begins differently: no cache of prefixes helps."""
    draw = random.Random(seed)  # noqa: S311 - draws words
    found = []
    for number in range(count):
        low, high = words or draw.choices([size for _, size in MIX], [share for share, _ in MIX])[0]
        found.append(f"Story {seed}.{number}: " + " ".join(draw.choices(WORDS, k=draw.randint(low, high))))
    return found


async def ask(client: httpx.AsyncClient, target: Target, prompt: str, tokens: int) -> Seen:
    """One streamed answer."""
    body = {
        "model": target.model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **target.asks,
    }
    began, times, written = time.perf_counter(), [], 0
    try:
        async with client.stream("POST", f"{target.url}/v1/chat/completions", json=body) as answer:
            if answer.status_code != 200:
                await answer.aread()
                return Seen((), time.perf_counter() - began, error=f"{answer.status_code} {answer.text[:200]}")
            async for line in answer.aiter_lines():
                event = _event(line)
                written = (event.get("usage") or {}).get("completion_tokens") or written
                if (((event.get("choices") or [{}])[0]).get("delta") or {}).get("content"):
                    times.append(time.perf_counter() - began)
    except httpx.HTTPError as why:
        return Seen(tuple(times), time.perf_counter() - began, error=repr(why))
    error = None if times else "no text came"
    # A server that says no usage sends a token a piece.
    return Seen(tuple(times), time.perf_counter() - began, written or len(times), error)


def _event(line: str) -> dict[str, Any]:
    if not line.startswith("data: ") or line == "data: [DONE]":
        return {}
    event: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return event


async def together(target: Target, texts: Sequence[str], tokens: int) -> tuple[list[Seen], float]:
    """All at once (closed loop); what they saw, and the seconds until the last was answered."""
    async with httpx.AsyncClient(timeout=TIMEOUT, limits=httpx.Limits(max_connections=256)) as client:
        began = time.perf_counter()
        seen = await asyncio.gather(*(ask(client, target, text, tokens) for text in texts))
        return list(seen), time.perf_counter() - began


async def arriving(target: Target, rate: float, seconds: float, tokens: int, seed: int) -> tuple[list[Seen], float]:
    """Requests that arrive by chance, `rate` a second, whether or not the earlier are answered (open loop)."""
    draw = random.Random(seed)  # noqa: S311 - draws words
    async with httpx.AsyncClient(timeout=TIMEOUT, limits=httpx.Limits(max_connections=1024)) as client:
        began, tasks = time.perf_counter(), []
        for text in prompts(round(rate * seconds), seed):
            tasks.append(asyncio.ensure_future(ask(client, target, text, tokens)))
            await asyncio.sleep(draw.expovariate(rate))
        return list(await asyncio.gather(*tasks)), time.perf_counter() - began


def summary(turns: Sequence[Turn], ttft_limit: float = 2.0, tpot_limit: float = 0.2) -> dict[str, float]:
    """What the requests of all turns saw; rates are a turn's median. Goodput: requests a second within both limits."""
    good = [one for seen, _ in turns for one in seen if one.error is None]
    failed = sum(len(seen) for seen, _ in turns) - len(good)
    if not good:
        return {"failed": failed}
    gaps = [gap for one in good for gap in one.gaps] or [0.0]
    kept = [(_within(seen, ttft_limit, tpot_limit), seconds) for seen, seconds in turns]
    written = [(sum(one.tokens for one in seen if one.error is None), seconds) for seen, seconds in turns]
    shown = {
        "tokens/s": statistics.median(tokens / seconds for tokens, seconds in written),
        "ttft_p50": statistics.median(one.ttft for one in good),
        "ttft_p99": percentile([one.ttft for one in good], 0.99),
        "tpot_p50": statistics.median(one.tpot for one in good),
        "itl_p99": percentile(gaps, 0.99),
        "goodput": statistics.median(count / seconds for count, seconds in kept),
    }
    return {"turns": len(turns), "failed": failed, **{name: round(value, 4) for name, value in shown.items()}}


def _within(seen: Sequence[Seen], ttft_limit: float, tpot_limit: float) -> int:
    return sum(one.error is None and one.ttft <= ttft_limit and one.tpot <= tpot_limit for one in seen)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
