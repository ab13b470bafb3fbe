"""Tokens per second of the runtime beside transformers, on the same model, prompts and threads.

    uv run python benchmarks/engine.py            a table
    uv run python benchmarks/engine.py -o json    for programs

Both continue the same prompts greedily. The runtime is asked over HTTP, transformers in this process with one padded
batch. They take turns, so that a machine that becomes slower is slower for both; the median of the turns is shown.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is imported, as in the runtime
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx2 as httpx
import torch
from backstay_contract.names import Env
from backstay_runtime import machine

from tests.goldens.replay import converted, serving

CONCURRENT = (1, 4, 8)
PROMPT_TOKENS = 64
NEW_TOKENS = 64


def prompts(count: int) -> list[list[int]]:
    """Different ordinary tokens for each."""
    generator = torch.Generator().manual_seed(1)
    rows: list[list[int]] = torch.randint(100, 40_000, (count, PROMPT_TOKENS), generator=generator).tolist()
    return rows


async def ask(url: str, rows: list[list[int]]) -> int:
    """All at once; the tokens that came."""
    body = {"max_tokens": NEW_TOKENS, "temperature": 0, "ignore_eos": True}
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        answers = await asyncio.gather(*(client.post("/v1/completions", json={**body, "prompt": row}) for row in rows))
    return sum(answer.raise_for_status().json()["usage"]["completion_tokens"] for answer in answers)


def run_ask(url: str, rows: list[list[int]]) -> int:
    """`ask`, waited for."""
    return asyncio.run(ask(url, rows))


def reference(folder: Path) -> Callable[[list[list[int]]], int]:
    """transformers on the same weights in float32."""
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - only here, and slow to import
    from transformers.utils import logging as transformers_logging  # noqa: PLC0415

    quiet: Any = transformers_logging
    quiet.disable_progress_bar()
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def generate(rows: list[list[int]]) -> int:
        given = torch.tensor(rows)
        with torch.inference_mode():
            found = model.generate(
                given,
                attention_mask=torch.ones_like(given),
                do_sample=False,
                min_new_tokens=NEW_TOKENS,
                max_new_tokens=NEW_TOKENS,
                pad_token_id=2,
            )
        return int(found.shape[0] * (found.shape[1] - given.shape[1]))

    return generate


def timed(work: Callable[[], int]) -> float:
    """Tokens per second."""
    began = time.perf_counter()
    return work() / (time.perf_counter() - began)


def measure(url: str, generate: Callable[[list[list[int]]], int], turns: int) -> list[dict[str, Any]]:
    """One line a number of concurrent requests."""
    lines = []
    for count in CONCURRENT:
        rows = prompts(count)
        ours: list[float] = []
        theirs: list[float] = []
        for turn in range(turns + 1):
            our_rate, their_rate = timed(partial(run_ask, url, rows)), timed(partial(generate, rows))
            if turn:  # the first warms up
                ours.append(our_rate)
                theirs.append(their_rate)
        lines.append(
            {
                "concurrent": count,
                "backstay": round(statistics.median(ours), 1),
                "transformers": round(statistics.median(theirs), 1),
                "ratio": round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 2),
            }
        )
    return lines


def main() -> int:
    """Prints what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5, help="turns that count (default 5)")
    parser.add_argument("--threads", type=int, default=machine.processors(), help="of each (default: all)")
    parser.add_argument("--dtype", default="auto", help="the runtime's: auto, float32 or float16")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    arguments = parser.parse_args()
    os.environ[Env.THREADS] = str(arguments.threads)
    os.environ[Env.DTYPE] = arguments.dtype
    torch.set_num_threads(arguments.threads)
    with serving(None) as url:
        lines = measure(url, reference(converted()), arguments.turns)
    if arguments.output == "json":
        said = json.dumps({"threads": arguments.threads, "dtype": arguments.dtype, "lines": lines})
    else:
        said = table(lines, arguments.threads)
    sys.stdout.write(said + "\n")
    return 0


def table(lines: list[dict[str, Any]], threads: int) -> str:
    """For people."""
    rows = [
        f"SmolLM2-135M, {PROMPT_TOKENS} tokens read and {NEW_TOKENS} written a request, {threads} threads;",
        "tokens written per second over all requests, reading included",
        f"{'concurrent':>10} {'backstay':>9} {'transformers':>13} {'ratio':>6}",
    ]
    rows += [
        f"{line['concurrent']:>10} {line['backstay']:>9} {line['transformers']:>13} {line['ratio']:>6}"
        for line in lines
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
