"""Attention over paged keys and values, for one step's batch of rows."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from backstay_runtime.kv.cache import KVCache


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive rows that are attended together: `sequences` × `rows_each` rows.

    `blocks`: the block tables, padded to one length and laid one after another. `mask`: what each row may see,
    True where it may, broadcastable to [sequences, heads, rows_each, tokens]; None for a whole beginning: the first
    row is the sequence's first, and each sees itself and what is before it. That takes half of the products.
    """

    first_row: int
    sequences: int
    rows_each: int
    blocks: torch.Tensor
    mask: torch.Tensor | None

    @property
    def end_row(self) -> int:
        """One past the group's last row."""
        return self.first_row + self.sequences * self.rows_each


class PagedAttention:
    """One write and one gather per layer and group, then scaled dot-product attention."""

    def __init__(self, cache: KVCache, slots: torch.Tensor, groups: list[Group]) -> None:
        """`slots`: where each row's keys and values go. The groups cover these rows, in order; rows that follow them
        only fill up a batch: they are stored nowhere and attend to nothing."""
        self._cache = cache
        self._slots = slots
        self._groups = groups

    def __call__(self, layer: int, queries: torch.Tensor, keys_values: torch.Tensor) -> torch.Tensor:
        """[rows, heads, head_dim] and [rows, 2, kv_heads, head_dim] -> [rows, heads × head_dim]."""
        rows = len(self._slots)
        self._cache.write(layer, self._slots, keys_values[:rows])
        parts = [self._attend(layer, queries[group.first_row : group.end_row], group) for group in self._groups]
        if rows < len(queries):
            parts.append(parts[0].new_zeros(len(queries) - rows, parts[0].shape[1]))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _attend(self, layer: int, queries: torch.Tensor, group: Group) -> torch.Tensor:
        rows, heads, head_dim = queries.shape
        keys, values = self._cache.read(layer, group.blocks, group.sequences)
        asked = queries.view(group.sequences, group.rows_each, heads, head_dim).transpose(1, 2)
        whole = group.mask is None
        if whole:
            keys, values = keys[:, :, : group.rows_each], values[:, :, : group.rows_each]
        seen = functional.scaled_dot_product_attention(
            asked, keys, values, attn_mask=group.mask, is_causal=whole, enable_gqa=True
        )
        return seen.transpose(1, 2).reshape(rows, heads * head_dim)
