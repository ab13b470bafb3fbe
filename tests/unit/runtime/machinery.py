"""An engine on the tiny model, and ways to run it."""

from collections.abc import Sequence
from pathlib import Path

import torch
from backstay_runtime.engine import Engine, Output
from backstay_runtime.kv.blocks import BlockPool
from backstay_runtime.model.linear import Dtype
from backstay_runtime.model.load import load_llama
from backstay_runtime.runner import Runner
from backstay_runtime.sampling.params import SamplingParams
from backstay_runtime.schedule.scheduler import Scheduler

from . import tiny

GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
BLOCK = 4


def make_engine(
    folder: Path, *, blocks: int = 66, max_sequences: int = 8, step_tokens: int = 16, eos: frozenset[int] = frozenset()
) -> Engine:
    """An engine of `blocks` blocks of 4 tokens."""
    model = load_llama(folder, dtype=Dtype.FLOAT32, device=torch.device("cpu"), positions=256)
    scheduler = Scheduler(BlockPool(blocks, BLOCK), max_sequences=max_sequences, step_tokens=step_tokens)
    return Engine(Runner(model, blocks=blocks, block_size=BLOCK), scheduler, eos)


def finish(engine: Engine, most_steps: int = 1000) -> dict[int, list[Output]]:
    """Runs until the engine is idle; each sequence's outputs."""
    found: dict[int, list[Output]] = {}
    for _ in range(most_steps):
        if engine.idle:
            return found
        for output in engine.step(0.0):
            found.setdefault(output.number, []).append(output)
    raise AssertionError(f"not idle after {most_steps} steps")


def tokens(outputs: Sequence[Output]) -> list[int]:
    """The tokens among the outputs."""
    return [output.token for output in outputs if output.token is not None]


def alone(folder: Path, prompt: list[int], params: SamplingParams = GREEDY) -> list[int]:
    """What a prompt gives when nothing else runs and everything fits."""
    engine = make_engine(folder, step_tokens=256)
    number = engine.add(prompt, params, arrival=0.0)
    return tokens(finish(engine)[number])


def prompt(seed: int, length: int) -> list[int]:
    """Some bytes."""
    generator = torch.Generator().manual_seed(seed)
    return [int(one) for one in torch.randint(0, 256, (length,), generator=generator)]


__all__ = ["BLOCK", "GREEDY", "alone", "finish", "make_engine", "prompt", "tiny", "tokens"]
