"""Attention over the paged cache beside plain sums in double precision."""

import math
from dataclasses import dataclass

import pytest
import torch
from backstay_runtime.attention import Group, PagedAttention
from backstay_runtime.kv.cache import KVCache
from hypothesis import given
from hypothesis import strategies as st

BLOCK, HEADS, KV_HEADS, DIM = 4, 4, 2, 8


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def cache(blocks: int = 16) -> KVCache:
    return KVCache(
        blocks, BLOCK, layers=1, kv_heads=KV_HEADS, head_dim=DIM, device=torch.device("cpu"), dtype=torch.float32
    )


@dataclass
class Text:
    """One sequence's numbers, all positions of it."""

    length: int
    seed: int

    @property
    def queries(self) -> torch.Tensor:
        return numbers(self.length, HEADS, DIM, seed=self.seed)

    @property
    def keys_values(self) -> torch.Tensor:
        return numbers(self.length, 2, KV_HEADS, DIM, seed=self.seed + 1)

    def wanted(self) -> torch.Tensor:
        """[length, heads × dim]: every position attends to itself and to what is before it."""
        queries, both = self.queries.double(), self.keys_values.double().repeat_interleave(HEADS // KV_HEADS, dim=2)
        scores = torch.einsum("qhd,khd->hqk", queries, both[:, 0]) / math.sqrt(DIM)
        scores.masked_fill_(torch.ones(self.length, self.length).tril() == 0, -math.inf)
        return torch.einsum("hqk,khd->qhd", scores.softmax(dim=-1), both[:, 1]).reshape(self.length, HEADS * DIM)


def mask(start: int, rows: int, blocks: int) -> torch.Tensor:
    ends = torch.arange(start + 1, start + rows + 1)[None, :]
    return torch.arange(blocks * BLOCK) < ends[:, None, :, None]


@given(length=st.integers(2, 30), seed=st.integers(0, 99))
def test_a_whole_beginning_needs_no_mask(length: int, seed: int) -> None:
    text, table = Text(length, seed), torch.randperm(14, generator=torch.Generator().manual_seed(seed)) + 1
    blocks = table[: -(-length // BLOCK)]
    slots = torch.tensor([int(blocks[at // BLOCK]) * BLOCK + at % BLOCK for at in range(length)])
    for seen in (None, mask(0, length, len(blocks))):
        attend = PagedAttention(cache(), slots, [Group(0, 1, length, blocks, seen)])
        assert torch.allclose(attend(0, text.queries, text.keys_values).double(), text.wanted(), atol=1e-5)


@given(start=st.integers(1, 15), rows=st.integers(1, 10), seed=st.integers(0, 99))
def test_a_later_piece_sees_what_the_earlier_ones_stored(start: int, rows: int, seed: int) -> None:
    text, held, blocks = Text(start + rows, seed), cache(), torch.arange(1, 8)
    for first, last in ((0, start), (start, start + rows)):
        group = Group(0, 1, last - first, blocks, mask(first, last - first, len(blocks)))
        attend = PagedAttention(held, torch.arange(BLOCK + first, BLOCK + last), [group])
        found = attend(0, text.queries[first:last], text.keys_values[first:last])
    assert torch.allclose(found.double(), text.wanted()[start:], atol=1e-5)


@pytest.mark.parametrize("padding", [1, 5])
def test_rows_that_fill_up_a_batch_are_stored_nowhere_and_change_nothing(padding: int) -> None:
    text, held = Text(6, seed=4), cache()
    group = Group(0, 1, 6, torch.tensor([3, 5]), None)
    slots = torch.tensor([12, 13, 14, 15, 20, 21])
    filled = PagedAttention(held, slots, [group])(
        0,
        torch.cat((text.queries, numbers(padding, HEADS, DIM, seed=8))),
        torch.cat((text.keys_values, numbers(padding, 2, KV_HEADS, DIM, seed=9))),
    )
    assert torch.allclose(filled[:6].double(), text.wanted(), atol=1e-5)
    assert not filled[6:].any()
    assert int((held.whole != 0).any(dim=(0, 3, 4, 5)).sum()) == 6, "only the text's own slots hold numbers"
