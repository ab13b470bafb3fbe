"""Runs the model over one step's slices of sequences."""

from collections.abc import Sequence

import torch

from backstay_runtime.attention import Group, PagedAttention
from backstay_runtime.batch import Layout, Rows, Slice, bucket, buckets_up_to, lay_out
from backstay_runtime.decoder import CompiledDecoder, padded
from backstay_runtime.kv.cache import KVCache
from backstay_runtime.model.llama import Llama


class Runner:
    """Slices in, hidden states out; logits only for the rows that are asked for."""

    def __init__(self, model: Llama, *, blocks: int, block_size: int, threads: int = 0) -> None:
        """`blocks` of the cache, reserved ones included. `threads`: of the compiled decoder; 0: do without it."""
        self._model = model
        self._block_size = block_size
        self._caches = [
            KVCache(
                blocks,
                block_size,
                layers=stage.layers,
                kv_heads=model.config.kv_heads,
                head_dim=model.config.head_dim,
                device=stage.device,
                dtype=model.dtype,
            )
            for stage in model.stages
        ]
        fits = threads and len(model.stages) == 1 and model.device.type == "cpu"
        self._decoder = CompiledDecoder(model, self._caches[0], threads) if fits else None

    def run(self, slices: Sequence[Slice]) -> tuple[torch.Tensor, dict[int, int]]:
        """Computes the slices: hidden states [rows, hidden], and each sequence's first row by its number."""
        decoder = self._decoder
        if decoder is not None and len(slices) <= decoder.most_rows and all(len(one.tokens) == 1 for one in slices):
            return self._decode(decoder, slices)
        layout = lay_out(slices, self._block_size)
        attends = [
            PagedAttention(cache, _index(layout.slots, stage.device), self._groups(layout, stage.device))
            for stage, cache in zip(self._model.stages, self._caches, strict=True)
        ]
        rows = len(layout.tokens)
        padding = [0] * (bucket(rows) - rows)
        device = self._model.device
        tokens, positions = _index(layout.tokens + padding, device), _index(layout.positions + padding, device)
        return self._model.hidden(tokens, positions, attends)[:rows], layout.first_row

    def _decode(self, decoder: CompiledDecoder, slices: Sequence[Slice]) -> tuple[torch.Tensor, dict[int, int]]:
        size = self._block_size
        hidden = decoder.hidden(
            [one.tokens[0] for one in slices],
            [one.start for one in slices],
            [one.blocks[one.start // size] * size + one.start % size for one in slices],
            padded([one.blocks for one in slices]),
        )
        return hidden, {one.number: row for row, one in enumerate(slices)}

    def logits(self, hidden: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        """[len(rows), vocabulary] float32 of some rows of `run`'s hidden states."""
        if self._decoder is not None and len(rows) <= self._decoder.most_rows:
            return self._decoder.logits(hidden[list(rows)])
        padding = [0] * (bucket(len(rows)) - len(rows))
        picked = hidden.index_select(0, _index([*rows, *padding], hidden.device))
        return self._model.logits(picked)[: len(rows)]

    def warm_up(self, block: int) -> None:
        """Compiles the kernels that decoding needs, in a block that nobody holds."""
        for rows in buckets_up_to(self._block_size):
            hidden, _ = self.run([Slice(0, [0] * rows, 0, [block])])
            self.logits(hidden, range(rows))

    def clear(self, blocks: list[int]) -> None:
        """Zeroes blocks that hold numbers that are not finite."""
        if blocks:
            for cache in self._caches:
                cache.clear(blocks)

    def close(self) -> None:
        """Ends the decoder's threads."""
        if self._decoder is not None:
            self._decoder.close()

    def _groups(self, layout: Layout, device: torch.device) -> list[Group]:
        groups, row = [], 0
        for rows in layout.groups:
            groups.append(self._group(rows, row, device))
            row = groups[-1].end_row
        return groups

    def _group(self, rows: Rows, first_row: int, device: torch.device) -> Group:
        sequences, each = len(rows.slices), len(rows.slices[0].tokens)
        if each > 1 and rows.slices[0].start == 0:
            return Group(first_row, sequences, each, _index(rows.blocks, device), None)
        ends = torch.tensor([one.start for one in rows.slices], device=device)[:, None] + torch.arange(
            1, each + 1, device=device
        )
        seen = torch.arange(rows.width * self._block_size, device=device)
        mask = seen < ends[:, None, :, None]
        return Group(first_row, sequences, each, _index(rows.blocks, device), mask)


def _index(numbers: Sequence[int], device: torch.device) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=device)
