"""Runs the model over one step's slices of sequences."""

from collections.abc import Sequence

import torch

from backstay_runtime.attention import Group, PagedAttention
from backstay_runtime.batch import Layout, Rows, Slice, bucket, buckets_up_to, lay_out
from backstay_runtime.kv.cache import KVCache
from backstay_runtime.model.llama import Llama


class Runner:
    """Slices in, hidden states out; logits only for the rows that are asked for."""

    def __init__(self, model: Llama, *, blocks: int, block_size: int) -> None:
        """`blocks` of the cache, reserved ones included."""
        self._model = model
        self._block_size = block_size
        self._cache = KVCache(
            blocks,
            block_size,
            layers=model.config.layers,
            kv_heads=model.config.kv_heads,
            head_dim=model.config.head_dim,
            device=model.device,
            dtype=model.dtype,
        )

    def run(self, slices: Sequence[Slice]) -> tuple[torch.Tensor, dict[int, int]]:
        """Computes the slices: hidden states [rows, hidden], and each sequence's first row by its number."""
        layout = lay_out(slices, self._block_size)
        device = self._model.device
        attend = PagedAttention(self._cache, _index(layout.slots, device), self._groups(layout))
        rows = len(layout.tokens)
        padding = [0] * (bucket(rows) - rows)
        tokens, positions = _index(layout.tokens + padding, device), _index(layout.positions + padding, device)
        return self._model.hidden(tokens, positions, attend)[:rows], layout.first_row

    def logits(self, hidden: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        """[len(rows), vocabulary] float32 of some rows of `run`'s hidden states."""
        padding = [0] * (bucket(len(rows)) - len(rows))
        picked = hidden.index_select(0, _index([*rows, *padding], self._model.device))
        return self._model.logits(picked)[: len(rows)]

    def warm_up(self, block: int) -> None:
        """Compiles the kernels that decoding needs, in a block that nobody holds."""
        for rows in buckets_up_to(self._block_size):
            hidden, _ = self.run([Slice(0, [0] * rows, 0, [block])])
            self.logits(hidden, range(rows))

    def clear(self, blocks: list[int]) -> None:
        """Zeroes blocks that hold numbers that are not finite."""
        if blocks:
            self._cache.clear(blocks)

    def _groups(self, layout: Layout) -> list[Group]:
        groups, row = [], 0
        for rows in layout.groups:
            groups.append(self._group(rows, row))
            row = groups[-1].end_row
        return groups

    def _group(self, rows: Rows, first_row: int) -> Group:
        device = self._model.device
        sequences, each = len(rows.slices), len(rows.slices[0].tokens)
        ends = torch.tensor([one.start for one in rows.slices], device=device)[:, None] + torch.arange(
            1, each + 1, device=device
        )
        seen = torch.arange(rows.width * self._block_size, device=device)
        mask = seen < ends[:, None, :, None]
        return Group(first_row, sequences, each, _index(rows.blocks, device), mask)


def _index(numbers: Sequence[int], device: torch.device) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=device)
