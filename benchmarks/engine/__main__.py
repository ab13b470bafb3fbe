"""Tokens per second of the runtime beside other servers, on the same model, prompts and threads, all over HTTP.

    uv run python -m benchmarks.engine                     tokens a second at 1, 4, 8 and 16 at once, a table
    uv run python -m benchmarks.engine --rate 2            requests that arrive by chance, 2 a second: what clients see
    uv run python -m benchmarks.engine --only backstay     without peers; -o json for programs

Servers run at the same time and take turns (A B A B), so that a machine that becomes slower is slower for all. Tokens a
second are the median of the turns; times are of all their requests together. Peers are installed into the cache,
outside the project; one that cannot be is named and left out.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from backstay_runtime import machine

from benchmarks.engine import peers
from benchmarks.engine.client import Target, Turn, arriving, prompts, summary, together
from benchmarks.engine.turns import timed

CONCURRENT = (1, 4, 8, 16)
WORDS = (40, 50)
Server = Callable[[], AbstractContextManager[Target]]


def servers(threads: int, only: Sequence[str]) -> dict[str, Server]:
    """What is measured, by name."""
    found: dict[str, Server] = {
        "backstay-float32": partial(peers.backstay, threads, "float32", "none"),
        "backstay-float16": partial(peers.backstay, threads, "float16", "none"),
        "backstay-int8": partial(peers.backstay, threads, "float32", "int8"),
        "transformers": partial(peers.transformers, threads),
        "llama.cpp": partial(peers.llama_cpp, threads),
        "vllm": partial(peers.vllm, threads),
    }
    return {name: one for name, one in found.items() if not only or any(name.startswith(word) for word in only)}


def bandwidth(threads: int) -> float:
    """Bytes a second that a sum over more memory than any cache holds reads, the best of some."""
    torch.set_num_threads(threads)
    numbers = torch.ones(128 * 1024 * 1024)
    found = []
    for _ in range(5):
        began = time.perf_counter()
        numbers.sum()
        found.append(numbers.numel() * numbers.element_size() / (time.perf_counter() - began))
    return max(found)


def reachable(name: str, target: Target) -> None:
    """Raises AbsentError when one short request is not answered."""
    (seen,), _ = asyncio.run(together(target, prompts(1, 0, WORDS), 2))
    if seen.error is not None:
        raise peers.AbsentError(f"{name} started, and answered a short request with {seen.error}")


def measure(
    targets: Sequence[Target], turns: int, end: float, tokens: int, concurrent: Sequence[int]
) -> list[dict[str, Any]]:
    """One line a server and number of requests at once. A turn that would pass `end` is not begun, the first apart."""
    found: dict[tuple[int, str], list[Turn]] = {(count, one.name): [] for count in concurrent for one in targets}
    for target in targets:
        asyncio.run(together(target, prompts(max(concurrent), turns, WORDS), 4))  # warms up
    for turn in timed(turns, end):
        for count in concurrent:
            for target in targets:
                made = asyncio.run(together(target, prompts(count, turn, WORDS), tokens))
                found[count, target.name].append(made)
    return [{"server": name, "concurrent": count, **summary(made)} for (count, name), made in found.items()]


def measure_arrivals(
    targets: Sequence[Target], turns: int, end: float, tokens: int, rate: float, seconds: float
) -> list[dict[str, Any]]:
    """One line a server."""
    found: dict[str, list[Turn]] = {target.name: [] for target in targets}
    for turn in timed(turns, end):
        for target in targets:
            found[target.name].append(asyncio.run(arriving(target, rate, seconds, tokens, turn)))
    return [{"server": name, "rate": rate, **summary(made)} for name, made in found.items()]


def main() -> int:
    """Prints what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5, help="turns that count (default 5)")
    parser.add_argument("--tokens", type=int, default=64, help="written by each request (default 64)")
    parser.add_argument("--threads", type=int, default=machine.processors(), help="of each server (default: all)")
    parser.add_argument("--concurrent", type=int, nargs="+", default=CONCURRENT, help="requests at once")
    parser.add_argument("--rate", type=float, help="requests a second that arrive by chance, instead")
    parser.add_argument("--seconds", type=float, default=30, help="of arrivals in a turn (default 30)")
    parser.add_argument("--minutes", type=float, default=9, help="after which no turn is begun (default 9)")
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="servers whose names begin so")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    asked = parser.parse_args()
    end = time.monotonic() + 60 * asked.minutes
    with ExitStack() as stack:
        targets = list(_started(stack, servers(asked.threads, asked.only)))
        if asked.rate is None:
            lines = measure(targets, asked.turns, end, asked.tokens, asked.concurrent)
        else:
            lines = measure_arrivals(targets, asked.turns, end, asked.tokens, asked.rate, asked.seconds)
        found = {"threads": asked.threads, "bytes_per_second": round(bandwidth(asked.threads)), "lines": lines}
    sys.stdout.write((json.dumps(found) if asked.output == "json" else table(found)) + "\n")
    return 0


def _started(stack: ExitStack, several: Mapping[str, Server]) -> Iterator[Target]:
    """Those that answer; they end with the stack. Says of the others why they are left out."""
    for name, server in several.items():
        with ExitStack() as own:
            try:
                target = own.enter_context(server())
                reachable(name, target)
            except peers.AbsentError as why:
                sys.stderr.write(f"{name} is left out: {why}\n")
            else:
                stack.push(own.pop_all())
                yield target


def table(found: dict[str, Any]) -> str:
    """For people."""
    lines = found["lines"]
    keys = list(dict.fromkeys(key for line in lines for key in line))
    rows = [f"{found['threads']} threads; times in seconds; memory gives {found['bytes_per_second'] / 1e9:.1f} GB/s"]
    rows.append("  ".join(f"{key:>20}" if key == "server" else f"{key:>10}" for key in keys))
    rows += [
        "  ".join(f"{line.get(key, ''):>20}" if key == "server" else f"{line.get(key, ''):>10}" for key in keys)
        for line in lines
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
