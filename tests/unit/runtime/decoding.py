"""Decoding steps on the tiny model."""

import torch
from backstay_runtime.batch import Slice
from backstay_runtime.kv.blocks import RESERVED_BLOCKS

BLOCK, BLOCKS = 4, 400
FAMILIES = ["LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"]


def step_of(positions: list[int], seed: int) -> list[Slice]:
    """One token of each of so many sequences, in block tables of their own."""
    generator = torch.Generator().manual_seed(seed)
    free = (torch.randperm(BLOCKS - RESERVED_BLOCKS, generator=generator) + RESERVED_BLOCKS).tolist()
    found = []
    for number, position in enumerate(positions):
        width = position // BLOCK + 1 + number % 2  # every second table has a block more than it needs
        table, free = free[:width], free[width:]
        found.append(Slice(number, [int(torch.randint(0, 256, (), generator=generator))], position, table))
    return found
