"""The compiled decoding step beside the one of torch's operators, at several numbers of rows: what MOST_ROWS rests on.

    uv run python -m benchmarks.engine.step                 float32, float16, int8 and int4 on all processors
    uv run python -m benchmarks.engine.step --only int8 --threads 1

Both steps are made in turn, so that a machine that becomes busy is so for both; the quickest of each is compared. A
step is a token of each sequence, with 100 tokens in the cache, and their logits; or the tokens of one prompt, and the
last one's.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from backstay_runtime import decoder, machine
from backstay_runtime.batch import Slice
from backstay_runtime.runner import Runner

from benchmarks.quantization import BLOCK, WAYS, load, name_of, slices_of

ROWS = (1, 2, 4, 8, 12, 16, 24, 32)


def seconds(runner: Runner, slices: Sequence[Slice]) -> float:
    """One step's, on the clock."""
    began = time.perf_counter()
    hidden, _ = runner.run(slices)
    runner.logits(hidden, range(len(hidden) - len(slices), len(hidden)))
    return time.perf_counter() - began


def prompt_of(rows: int) -> list[Slice]:
    """One sequence's first tokens."""
    return [Slice(0, [5] * rows, 0, list(range(2, 3 + rows // BLOCK)))]


def compare(compiled: Runner, plain: Runner, slices: Sequence[Slice], turns: int) -> dict[str, float]:
    """Milliseconds of the quickest step of each, and their ratio: above 1, the compiled one is quicker."""
    found = [(seconds(compiled, slices), seconds(plain, slices)) for _ in range(turns + 1)]
    ours, theirs = (1000 * min(times) for times in zip(*found[1:], strict=True))  # the first warms up
    return {"compiled_ms": round(ours, 2), "torch_ms": round(theirs, 2), "ratio": round(theirs / ours, 2)}


def main() -> int:
    """Prints a line for each way of holding weights and number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=12, help="steps of each (default 12)")
    parser.add_argument("--threads", type=int, default=machine.processors(), help="default: all")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--prompt", action="store_true", help="the rows are one prompt's, instead of a sequence each")
    parser.add_argument("--only", nargs="+", default=(), metavar="WEIGHTS", help="float32, int8, …")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    decoder.MOST_ROWS = max(asked.rows)  # also where it is slower
    lines: list[dict[str, Any]] = []
    for way in WAYS:
        if asked.only and name_of(*way) not in asked.only:
            continue
        model = load(*way)
        blocks = 2 + max(asked.rows) * 8
        compiled, plain = (
            Runner(model, blocks=blocks, block_size=BLOCK, threads=threads) for threads in (asked.threads, 0)
        )
        with torch.inference_mode():
            for rows in asked.rows:
                slices = prompt_of(rows) if asked.prompt else slices_of(rows)
                lines.append({"weights": name_of(*way), "rows": rows, **compare(compiled, plain, slices, asked.turns)})
                if asked.output == "table":
                    sys.stdout.write("  ".join(f"{key} {value:<8}" for key, value in lines[-1].items()) + "\n")
                    sys.stdout.flush()
        compiled.close()
    if asked.output == "json":
        sys.stdout.write(json.dumps({"threads": asked.threads, "lines": lines}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
