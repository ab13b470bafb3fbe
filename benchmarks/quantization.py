"""What weights of fewer bits cost and save: memory, perplexity, and the processor's time of a decoding step.

    uv run python -m benchmarks.quantization

SmolLM2-135M on the paragraphs of tests/goldens. The time is the processor's on one thread, the best of some steps, so
that a busy machine changes it little; a pod's tokens per second are what `benchmarks.engine` measures.
"""

import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from backstay_runtime.batch import Slice
from backstay_runtime.model.linear import Dtype, Quantization
from backstay_runtime.model.llama import Llama
from backstay_runtime.model.load import load_llama
from backstay_runtime.runner import Runner

from tests.goldens.replay import HERE, converted

WAYS = (
    (Dtype.FLOAT32, Quantization.NONE),
    (Dtype.FLOAT16, Quantization.NONE),
    (Dtype.BFLOAT16, Quantization.NONE),
    (Dtype.FLOAT32, Quantization.INT8),
    (Dtype.FLOAT32, Quantization.INT4),
)
ROWS = (1, 4, 16)
BLOCK, TURNS = 16, 12


def name_of(dtype: Dtype, quantization: Quantization) -> str:
    """What a table calls the weights."""
    return dtype if quantization is Quantization.NONE else quantization


def load(dtype: Dtype, quantization: Quantization) -> Llama:
    """The converted model."""
    return load_llama(converted(), dtype=dtype, quantization=quantization, device=torch.device("cpu"), positions=1024)


def perplexity(runner: Runner, texts: Sequence[Sequence[int]]) -> float:
    """Of all texts together, each read by itself."""
    nll, count = 0.0, 0
    for ids in texts:
        hidden, _ = runner.run([Slice(0, ids, 0, list(range(2, 3 + len(ids) // BLOCK)))])
        for start in range(0, len(ids) - 1, 64):
            rows = range(start, min(start + 64, len(ids) - 1))
            logprobs = runner.logits(hidden, rows).log_softmax(dim=-1)
            wanted = torch.tensor([ids[row + 1] for row in rows])
            nll -= float(logprobs.gather(-1, wanted[:, None]).double().sum())
            count += len(rows)
    return math.exp(nll / count)


def slices_of(rows: int) -> list[Slice]:
    """A token of each of so many sequences, with 100 tokens in the cache and 8 blocks of it each."""
    return [Slice(number, [5], 100, list(range(2 + 8 * number, 10 + 8 * number))) for number in range(rows)]


def step_milliseconds(runner: Runner, rows: int) -> float:
    """The processor's time of a step that decodes so many sequences, 100 tokens each in the cache."""
    slices = slices_of(rows)
    best = math.inf
    for _ in range(TURNS):
        began = time.thread_time()
        hidden, _ = runner.run(slices)
        runner.logits(hidden, range(rows))
        best = min(best, time.thread_time() - began)
    return best * 1000


def main() -> int:
    """Prints a table."""
    torch.set_num_threads(1)
    golden = json.loads((Path(HERE) / "smollm2.json").read_bytes())
    texts = [text["ids"] for text in golden["perplexity"]["paragraphs"]]
    heads = " ".join(f"{f'ms, {rows} rows':>12}" for rows in ROWS)
    sys.stdout.write(f"{'weights':>8} {'MiB':>6} {'perplexity':>11} {heads}\n")
    for dtype, quantization in WAYS:
        model = load(dtype, quantization)
        runner = Runner(model, blocks=256, block_size=BLOCK, threads=1)
        with torch.inference_mode():
            found = perplexity(runner, texts)
            times = " ".join(f"{step_milliseconds(runner, rows):>12.1f}" for rows in ROWS)
        runner.close()
        sys.stdout.write(f"{name_of(dtype, quantization):>8} {model.bytes >> 20:>6} {found:>11.4f} {times}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
