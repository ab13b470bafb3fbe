"""Static, dynamic and continuous batching with full and with quantized weights: requests a second, and their waits.

    uv run python -m benchmarks.engine.batching            a table; -o json for programs

The engine itself, without HTTP. In every turn each way gets the same requests, which arrive faster than it can answer:
prompts of 9 to 128 tokens, answers of 16 to 128, eight sequences at once. The ways take turns, so that a machine that
becomes slower is slower for all.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from backstay_runtime import machine
from backstay_runtime.engine import Engine
from backstay_runtime.kv.blocks import PROBE_BLOCK, RESERVED_BLOCKS, BlockPool
from backstay_runtime.model.linear import Dtype, Quantization
from backstay_runtime.runner import Runner
from backstay_runtime.sampling.params import SamplingParams
from backstay_runtime.schedule.batching import Batching
from backstay_runtime.schedule.scheduler import Scheduler

from benchmarks.engine.client import percentile
from benchmarks.engine.turns import timed
from benchmarks.quantization import BLOCK, load, name_of

WAYS = (
    (Dtype.FLOAT32, Quantization.NONE),
    (Dtype.FLOAT32, Quantization.INT8),
    (Dtype.FLOAT32, Quantization.INT4),
)
PROMPT, ANSWER = (9, 128), (16, 128)
AT_ONCE, STEP_TOKENS = 8, 256
BLOCKS = RESERVED_BLOCKS + AT_ONCE * -(-(PROMPT[1] + ANSWER[1]) // BLOCK)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request; `at`: seconds after the first."""

    at: float
    prompt: tuple[int, ...]
    tokens: int


@dataclass(slots=True)
class Played:
    """What became of some requests, in seconds."""

    seconds: float = 0.0
    tokens: int = 0
    first: list[float] = field(default_factory=list)
    """From each arrival to its first token."""
    whole: list[float] = field(default_factory=list)
    """To its last."""
    batches: list[int] = field(default_factory=list)
    """Sequences in each step."""


def drawn(count: int, rate: float, seed: int) -> list[Ask]:
    """Requests that arrive by chance, `rate` a second."""
    draw = random.Random(seed)  # noqa: S311 - draws tokens
    asks, at = [], 0.0
    for _ in range(count):
        prompt = tuple(draw.randrange(100, 40_000) for _ in range(draw.randint(*PROMPT)))
        asks.append(Ask(at, prompt, draw.randint(*ANSWER)))
        at += draw.expovariate(rate)
    return asks


def play(engine: Engine, asks: Sequence[Ask]) -> Played:
    """Gives the engine each request when it is due, until all are answered."""
    due, played = deque(asks), Played()
    arrived: dict[int, float] = {}
    begun: set[int] = set()
    start = time.perf_counter()
    while due or not engine.idle:
        now = time.perf_counter() - start
        while due and due[0].at <= now:
            ask = due.popleft()
            params = SamplingParams(ask.tokens, temperature=0.0, ignore_eos=True)
            arrived[engine.add(ask.prompt, params, arrival=ask.at)] = ask.at
        if engine.idle:
            time.sleep(due[0].at - now)
            continue
        written = [output for output in engine.step(now) if output.token is not None]
        if not written and engine.wait:
            time.sleep(min([engine.wait, *([max(0.0, due[0].at - now)] if due else [])]))
            continue
        now = time.perf_counter() - start
        played.batches.append(engine.batch)
        played.tokens += len(written)
        played.first += [now - arrived[one.number] for one in written if one.number not in begun]
        played.whole += [now - arrived[one.number] for one in written if one.finish is not None]
        begun.update(one.number for one in written)
    played.seconds = time.perf_counter() - start
    return played


def summary(several: Sequence[Played]) -> dict[str, float]:
    """Rates are a turn's median; times are of all requests together."""
    first, whole = ([time for one in several for time in getattr(one, name)] for name in ("first", "whole"))
    return {
        "requests/s": round(statistics.median(len(one.whole) / one.seconds for one in several), 3),
        "tokens/s": round(statistics.median(one.tokens / one.seconds for one in several), 1),
        "ttft_p50": round(statistics.median(first), 3),
        "latency_p50": round(statistics.median(whole), 3),
        "latency_p99": round(percentile(whole, 0.99), 3),
        "batch": round(statistics.mean(count for one in several for count in one.batches), 2),
    }


def measure(turns: int, end: float, requests: int, rate: float, threads: int) -> list[dict[str, Any]]:
    """One line for each way of holding weights and of batching; each beside the first."""
    runners = {
        name_of(*way): Runner(load(*way), blocks=BLOCKS, block_size=BLOCK, threads=threads) for way in WAYS
    }  # fmt: skip
    found: dict[tuple[str, Batching], list[Played]] = {(name, way): [] for name in runners for way in _ORDER}
    for runner in runners.values():
        with torch.inference_mode():
            runner.warm_up(PROBE_BLOCK)
    for turn in timed(turns, end):
        asks = drawn(requests, rate, turn)
        for (name, way), played in found.items():
            scheduler = Scheduler(
                BlockPool(BLOCKS, BLOCK), max_sequences=AT_ONCE, step_tokens=STEP_TOKENS, batching=way
            )
            played.append(play(Engine(runners[name], scheduler, frozenset()), asks))
    for runner in runners.values():
        runner.close()
    rates = {cell: summary(played) for cell, played in found.items()}
    least = next(iter(rates.values()))["requests/s"]
    return [
        {"weights": name, "batching": str(way), **seen, "gain": round(seen["requests/s"] / least, 2)}
        for (name, way), seen in rates.items()
    ]


_ORDER = (Batching.STATIC, Batching.DYNAMIC, Batching.CONTINUOUS)


def main() -> int:
    """Prints what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3, help="at most (default 3)")
    parser.add_argument("--minutes", type=float, default=4.5, help="after which no turn is begun (default 4.5)")
    parser.add_argument("--requests", type=int, default=24, help="in a turn (default 24)")
    parser.add_argument("--rate", type=float, default=8, help="of their arrival, a second (default 8)")
    parser.add_argument("--threads", type=int, default=machine.processors(), help="default: all")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    end = time.monotonic() + 60 * asked.minutes
    lines = measure(asked.turns, end, asked.requests, asked.rate, asked.threads)
    if asked.output == "json":
        sys.stdout.write(json.dumps({"threads": asked.threads, "at_once": AT_ONCE, "lines": lines}) + "\n")
        return 0
    sys.stdout.write(f"{asked.threads} threads, {AT_ONCE} at once; times in seconds; gain: requests/s by the first's\n")
    for row in (dict(zip(lines[0], lines[0], strict=True)), *lines):
        sys.stdout.write("  ".join(f"{value:>11}" for value in row.values()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
