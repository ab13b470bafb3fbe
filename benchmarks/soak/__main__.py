"""make soak: a real server process, 20,000 requests of every kind, and its memory meanwhile.

Whole answers and streams, several choices, refusals, deadlines that pass and clients that hang up, eight at a time, on
a tiny model. Exit code 1 where the process grows.
"""

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import httpx2 as httpx

from benchmarks.soak.growth import Growth, growth
from tests.integration.serving.processes import Server, running
from tests.unit.runtime import tiny

AT_ONCE = 8
EVERY = 500
"""Requests between two readings."""


def body(draw: random.Random) -> dict[str, Any]:
    """One request; few prompts begin alike, most do not."""
    text = "".join(draw.choices("abcdefgh ", k=draw.randint(1, 60)))
    asked: dict[str, Any] = {"prompt": text, "max_tokens": draw.randint(1, 12), "temperature": 1.0}
    kind = draw.random()
    if kind < 0.1:
        asked["n"] = 2
    elif kind < 0.2:
        asked["logprobs"] = 3
    elif kind < 0.25:
        asked["temperature"] = -1
    elif kind < 0.3:
        asked |= {"timeout": 0.001, "max_tokens": 100}
    return asked


async def one(client: httpx.AsyncClient, draw: random.Random) -> str:
    """A request, whole, streamed, or given up; what came of it."""
    asked, kind = body(draw), draw.random()
    if kind < 0.6:
        return str((await client.post("/v1/completions", json=asked)).status_code)
    with contextlib.suppress(httpx.HTTPError):
        async with client.stream("POST", "/v1/completions", json={**asked, "stream": True}) as answer:
            async for _ in answer.aiter_bytes():
                if kind > 0.9:
                    return "hung up"
            return f"stream {answer.status_code}"
    return "broken"


def resident(pid: int) -> int:
    """Bytes of memory that the process has."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024


async def drive(server: Server, requests: int) -> tuple[list[tuple[int, int]], dict[str, int]]:
    """All requests; readings of the memory, and how requests ended."""
    readings, ends, done = [], dict[str, int](), 0
    numbers = iter(range(requests))

    async def worker() -> None:
        nonlocal done
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            for number in numbers:
                end = await one(client, random.Random(number))  # noqa: S311 - made-up requests, the same in each run
                ends[end] = ends.get(end, 0) + 1
                done += 1
                if done % EVERY == 0:
                    readings.append((done, resident(server.process.pid)))
                    show(done, requests, readings[-1][1])

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return readings, ends


def show(done: int, requests: int, size: int) -> None:
    """Progress, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done:6} of {requests} requests, {size / 1e6:.1f} MB")
        sys.stderr.flush()


def report(found: Growth, ends: dict[str, int], requests: int, seconds: float) -> str:
    """For people."""
    said = ", ".join(f"{count} {end}" for end, count in sorted(ends.items(), key=lambda item: -item[1]))
    return (
        f"{requests} requests in {seconds:.0f} s: {said}\n"
        f"settled at {found.settled_mb:.1f} MB; since then {found.bytes_per_request:+.1f} bytes a request, "
        f"{found.share:+.2%} over the rest of the run: {'flat' if found.flat else 'IT GROWS'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000, help="how many (default: %(default)s)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="how it is printed")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = tiny.write(Path(place) / "tiny")
        with running(Path(place) / "server", "--model", str(folder)) as server:
            server.wait_until_ready()
            began = time.monotonic()
            readings, ends = asyncio.run(drive(server, chosen.requests))
            seconds = time.monotonic() - began
            left = server.value("backstay_kv_blocks_used")
    found = growth(readings)
    if chosen.output == "json":
        said = json.dumps({"readings": readings, "ends": ends, "flat": found.flat, "share": found.share})
    else:
        said = report(found, ends, chosen.requests, seconds)
    sys.stdout.write(f"{said}\n")
    return 0 if found.flat and left == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
