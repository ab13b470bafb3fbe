"""Attention with torch alone, on every device: the pages are gathered, then torch's product is taken."""

from collections.abc import Sequence

import torch

from backstay_runtime.attention import Group, PagedAttention
from backstay_runtime.batch import Layout, Rows
from backstay_runtime.kv.cache import KVCache


class Gathered:
    """Its memory grows with the keys and values of a group, which are copied side by side for each layer."""

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache
        self._device, self._block_size = cache.whole.device, cache.whole.shape[2]

    def attention(self, layout: Layout) -> PagedAttention:
        """One group after another."""
        groups, row = [], 0
        for rows in layout.groups:
            groups.append(self._group(rows, row))
            row = groups[-1].end_row
        return PagedAttention(self._cache, self._index(layout.slots), groups)

    def _group(self, rows: Rows, first_row: int) -> Group:
        sequences, each = len(rows.slices), len(rows.slices[0].tokens)
        if each > 1 and rows.slices[0].start == 0:
            return Group(first_row, sequences, each, self._index(rows.blocks), None)
        ends = torch.tensor([one.start for one in rows.slices], device=self._device)[:, None] + torch.arange(
            1, each + 1, device=self._device
        )
        seen = torch.arange(rows.width * self._block_size, device=self._device)
        mask = seen < ends[:, None, :, None]
        return Group(first_row, sequences, each, self._index(rows.blocks), mask)

    def _index(self, numbers: Sequence[int]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self._device)
