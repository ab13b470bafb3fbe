"""Steps of all kinds over a paged cache, and what each of their rows sees, in double precision."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from backstay_runtime.backends.backend import AttentionBackend
from backstay_runtime.batch import Slice, lay_out
from backstay_runtime.kv.blocks import RESERVED_BLOCKS
from backstay_runtime.kv.cache import KVCache
from hypothesis import strategies as st

BLOCK = 16
"""Tokens: as in a pod."""


@dataclass(frozen=True)
class Step:
    """Sequences of which some tokens are computed, after `start` that are stored."""

    spans: tuple[tuple[int, int], ...]
    """Start and count of each."""
    kv_heads: int
    each: int
    """Query heads that share a key's head."""
    padding: int
    """Rows behind the step's own."""
    head_dim: int
    seed: int

    @property
    def heads(self) -> int:
        """Of the queries."""
        return self.kv_heads * self.each

    @cached_property
    def slices(self) -> list[Slice]:
        """With block tables in any order, of blocks that nobody else has."""
        generator = torch.Generator().manual_seed(self.seed)
        needed = [-(-(start + count) // BLOCK) for start, count in self.spans]
        blocks = (torch.randperm(sum(needed) + 3, generator=generator) + RESERVED_BLOCKS).tolist()
        found = []
        for number, ((start, count), width) in enumerate(zip(self.spans, needed, strict=True)):
            table, blocks = blocks[:width], blocks[width:]
            found.append(Slice(number, [0] * count, start, table))
        return found

    @property
    def blocks(self) -> int:
        """Of the cache: three are in no table."""
        return sum(len(one.blocks) for one in self.slices) + 3 + RESERVED_BLOCKS


def steps(head_dims: tuple[int, ...] = (8, 64)) -> st.SearchStrategy[Step]:
    """Decoded tokens, whole beginnings and later chunks together, of equal and of very unequal lengths."""
    span = st.one_of(
        st.tuples(st.integers(0, 70), st.just(1)),
        st.tuples(st.just(0), st.integers(1, 40)),
        st.tuples(st.integers(0, 70), st.integers(1, 40)),
        st.tuples(st.integers(200, 260), st.just(1)),
    )
    return st.builds(
        Step,
        spans=st.lists(span, min_size=1, max_size=5).map(tuple),
        kv_heads=st.integers(1, 3),
        each=st.sampled_from([1, 2, 3, 4]),
        padding=st.integers(0, 3),
        head_dim=st.sampled_from(head_dims),
        seed=st.integers(0, 99),
    )


def off(
    step: Step, backend: Callable[[KVCache, int], AttentionBackend], dtype: torch.dtype, device: torch.device
) -> float:
    """How far a backend's farthest number is from the reference; fails where it stores or answers what it must not."""
    cache = KVCache(
        step.blocks, BLOCK, layers=2, kv_heads=step.kv_heads, head_dim=step.head_dim, device=device, dtype=dtype
    )
    generator = torch.Generator().manual_seed(step.seed)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    layout, made = lay_out(step.slices, BLOCK), backend(cache, step.heads)
    rows = len(layout.tokens) + step.padding
    for layer in (0, 1):
        queries, given = numbers(rows, step.heads, step.head_dim), numbers(rows, 2, step.kv_heads, step.head_dim)
        whole = {one.number: numbers(one.end, 2, step.kv_heads, step.head_dim) for one in step.slices}
        for one in step.slices:
            first = layout.first_row[one.number]
            given[first : first + len(one.tokens)] = whole[one.number][one.start :]
            cache.write(layer, _slots(one)[: one.start].to(device), whole[one.number][: one.start].to(device))
        if layer == 0:
            attend, worst = made.attention(layout), 0.0
        found = attend(layer, queries.to(device), given.to(device)).cpu()
        assert found.shape == (rows, step.heads * step.head_dim)
        assert not found[rows - step.padding :].any(), "rows that only fill up attend to nothing"
        for one in step.slices:
            at = slice(layout.first_row[one.number], layout.first_row[one.number] + len(one.tokens))
            wanted = _seen(queries[at], whole[one.number], one.start)
            worst = max(worst, float((found[at].double() - wanted).abs().max()))
            stored = cache.layers[layer].cpu().flatten(0, 1)[_slots(one)]
            assert torch.equal(stored, whole[one.number])
        used = sum(one.end for one in step.slices)
        held = cache.layers[layer].flatten(0, 1).flatten(1).count_nonzero(dim=1).count_nonzero()
        assert int(held) == used, "nothing is stored but the step's own tokens"
    return worst


def _slots(one: Slice) -> torch.Tensor:
    """Where each of the sequence's tokens is stored."""
    return torch.tensor([one.blocks[at // BLOCK] * BLOCK + at % BLOCK for at in range(one.end)], dtype=torch.long)


def _seen(queries: torch.Tensor, whole: torch.Tensor, start: int) -> torch.Tensor:
    """[rows, heads × head_dim]: each row sees itself and what is before it, one after another."""
    rows, heads, head_dim = queries.shape
    both = whole.double().repeat_interleave(heads // whole.shape[2], dim=2)
    found = []
    for row in range(rows):
        keys, values = both[: start + row + 1].unbind(dim=1)
        scores = torch.einsum("hd,khd->hk", queries[row].double(), keys) / math.sqrt(head_dim)
        found.append(torch.einsum("hk,khd->hd", scores.softmax(dim=-1), values).flatten())
    return torch.stack(found)
