"""Record latencies of the real runtime under load, for the benchmark to draw soaks from: some five minutes.

    python -m benchmarks.judge.record [--model FOLDER] [--seconds 60] [--into benchmarks/judge/traces.json]

Runs: steady load; the same requests in bursts; beside programs that take the processors now and then; with two requests
at the same time at most. Requests come when they come, whether earlier ones are answered or not.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx

from benchmarks.judge.soaks import TRACES
from tests.unit.runtime import tiny

PORT, CONTROL_PORT = 18473, 18474
TEXT = "a rope that holds a mast up from behind stays rigged until the new one has proven that it carries the load"
BURST_SECONDS, PAUSE_SECONDS, BURST = 4.0, 8.0, 2.4
NEIGHBOUR_SECONDS = 6.0
Requests = list[tuple[float, float]]
"""Seconds from the begin to the end of the request, and its latency in milliseconds."""


@asynccontextmanager
async def runtime(model: Path, **environment: str) -> AsyncIterator[httpx.AsyncClient]:
    """The runtime on loopback, until the block ends."""
    ports = {"BACKSTAY_HOST": "127.0.0.1", "BACKSTAY_PORT": str(PORT), "BACKSTAY_CONTROL_PORT": str(CONTROL_PORT)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "backstay_runtime", "serve", "--model", str(model)),
        env={**os.environ, **ports, "BACKSTAY_TERMINATION_LOG": os.devnull, **environment},
        stdout=asyncio.subprocess.DEVNULL,
    )
    limits = httpx.Limits(max_connections=400)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{PORT}", timeout=60, limits=limits) as client:
            await _ready(client, process)
            yield client
    finally:
        process.terminate()
        await process.wait()


async def _ready(client: httpx.AsyncClient, process: asyncio.subprocess.Process) -> None:
    for _ in range(1800):
        if process.returncode is not None:
            raise SystemExit(f"the runtime ended with exit code {process.returncode}")
        try:
            if (await client.get("/readyz")).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        await asyncio.sleep(0.1)
    raise SystemExit("the runtime was not ready within three minutes")


async def load(client: httpx.AsyncClient, seconds: float, rate: float, *, bursts: bool) -> Requests:
    """An open loop of requests with 4 to 24 words, 4 to 16 tokens long."""
    rng = random.Random(f"load {bursts}")  # noqa: S311 - a load
    began = time.monotonic()
    found: Requests = []
    words = TEXT.split()

    async def one(prompt: str, tokens: int) -> None:
        asked = time.monotonic()
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        answer = await client.post("/v1/completions", json=body)
        ended = time.monotonic()
        if answer.status_code == 200:
            found.append((round(ended - began, 2), round((ended - asked) * 1000, 1)))

    async with asyncio.TaskGroup() as group:
        at = 0.0
        while at < seconds:
            at += rng.expovariate(_rate(at, rate) if bursts else rate)
            await asyncio.sleep(max(0.0, began + at - time.monotonic()))
            prompt = " ".join(rng.choices(words, k=rng.randint(4, 24)))
            group.create_task(one(prompt, rng.randint(4, 16)))
    return sorted(found)


def _rate(at: float, rate: float) -> float:
    """The same requests in the mean, most of them in bursts."""
    in_burst = at % (BURST_SECONDS + PAUSE_SECONDS) < BURST_SECONDS
    rest = (BURST_SECONDS + PAUSE_SECONDS - BURST * BURST_SECONDS) / PAUSE_SECONDS
    return rate * (BURST if in_burst else rest)


@contextmanager
def neighbours() -> Any:
    """As many processes as there are processors, busy every other while."""
    processes = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(os.cpu_count() or 1)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()


def _burn() -> None:
    while True:
        until = time.monotonic() + NEIGHBOUR_SECONDS
        while time.monotonic() < until:
            pass
        time.sleep(NEIGHBOUR_SECONDS)


async def record(model: Path, seconds: float, rate: float) -> dict[str, Requests]:
    """The four runs."""
    found: dict[str, Requests] = {}
    async with runtime(model) as client:
        await load(client, 5, rate, bursts=False)
        found["steady"] = await load(client, seconds, rate, bursts=False)
        found["bursty"] = await load(client, seconds, rate, bursts=True)
        with neighbours():
            found["neighbours"] = await load(client, seconds, rate, bursts=False)
    async with runtime(model, BACKSTAY_MAX_NUM_SEQS="2", BACKSTAY_QUEUE_LENGTH="400") as client:
        await load(client, 5, rate / 4, bursts=False)
        found["two at a time"] = await load(client, seconds, rate, bursts=False)
    return found


def main(arguments: Sequence[str]) -> int:
    """Record and write."""
    about = (__doc__ or "").split("\n", maxsplit=1)[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge.record", description=about)
    parser.add_argument("--model", type=Path, help="a model's folder (default: the tests' tiny Llama)")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each run (default: 60)")
    parser.add_argument("--rate", type=float, default=25.0, help="requests a second (default: 25)")
    parser.add_argument("--into", type=Path, default=TRACES)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        model = given.model or tiny.write(Path(folder) / "tiny-llama")
        runs = asyncio.run(record(model, given.seconds, given.rate))
        head = {"model": model.name, "rate": given.rate, "processors": os.cpu_count(), "machine": platform.machine()}
    given.into.write_text(json.dumps({**head, "runs": runs}, separators=(",", ":")) + "\n")
    for name, requests in runs.items():
        print(f"{name}: {len(requests)} requests")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
