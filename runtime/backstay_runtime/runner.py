"""Runs the model over one step's slices of sequences."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Protocol

import torch

from backstay_runtime.backends.choice import choose
from backstay_runtime.batch import Slice, lay_out
from backstay_runtime.buckets import bucket, buckets_up_to
from backstay_runtime.decoder import MOST_SEEN, CompiledDecoder, padded
from backstay_runtime.graphs.capture import Capture, CudaGraphs
from backstay_runtime.graphs.decoder import GraphDecoder
from backstay_runtime.kv.cache import KVCache
from backstay_runtime.model.llama import Llama


class Decoder(Protocol):
    """Computes a few tokens, quicker than step by step through torch."""

    @property
    def most_rows(self) -> int:
        """How many at most."""
        ...

    @property
    def reads_prompts(self) -> bool:
        """Whether several of them may be of one sequence, one after another."""
        ...

    def hidden(
        self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int], blocks: Any
    ) -> torch.Tensor | None:
        """[rows, hidden] before the last norm; None where this step is left to the plain way, with nothing done.

        `blocks`: int64 [rows, width], padded.
        """
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[rows, hidden] -> [rows, vocabulary] float32."""
        ...

    def close(self) -> None:
        """Ends what it holds."""
        ...


class Runner:
    """Slices in, hidden states out; logits only for the rows that are asked for."""

    def __init__(
        self, model: Llama, *, blocks: int, block_size: int, threads: int = 0, capture: Capture | None = None
    ) -> None:
        """`blocks` of the cache, reserved ones included. `threads`: of the compiled decoder on a CPU; 0: do without a
        decoder of any kind. `capture`: how decoding steps are recorded, where not as the device does it."""
        self._model = model
        self._block_size = block_size
        alone = threads > 0 and len(model.stages) == 1
        if capture is None and alone and model.device.type == "cuda":
            capture = CudaGraphs(model.device)
        # A recorded step has rows to spare, which need a block of their own: it lies behind all others.
        self._caches = [
            KVCache(
                blocks + (capture is not None),
                block_size,
                layers=stage.layers,
                kv_heads=model.config.kv_heads,
                head_dim=model.config.head_dim,
                device=stage.device,
                dtype=model.dtype,
            )
            for stage in model.stages
        ]
        self._backends = [choose(cache, model.config.heads) for cache in self._caches]
        self._decoder: Decoder | None = None
        if alone and capture is not None:
            self._decoder = GraphDecoder(model, self._caches[0], capture, spare=blocks)
        elif alone and model.device.type == "cpu":
            self._decoder = CompiledDecoder(model, self._caches[0], threads)

    def run(self, slices: Sequence[Slice]) -> tuple[torch.Tensor, dict[int, int]]:
        """Computes the slices: hidden states [rows, hidden], and each sequence's first row by its number."""
        decoder = self._decoder
        if decoder is not None and _is_for(decoder, slices):
            hidden = self._decode(decoder, slices)
            if hidden is not None:
                firsts = accumulate((len(one.tokens) for one in slices), initial=0)
                return hidden, {one.number: first for one, first in zip(slices, firsts, strict=False)}
        layout = lay_out(slices, self._block_size)
        attends = [backend.attention(layout) for backend in self._backends]
        rows = len(layout.tokens)
        padding = [0] * (bucket(rows) - rows)
        device = self._model.device
        tokens, positions = _index(layout.tokens + padding, device), _index(layout.positions + padding, device)
        return self._model.hidden(tokens, positions, attends)[:rows], layout.first_row

    def _decode(self, decoder: Decoder, slices: Sequence[Slice]) -> torch.Tensor | None:
        return decoder.hidden(
            [token for one in slices for token in one.tokens],
            [place for one in slices for place in range(one.start, one.end)],
            [slot for one in slices for slot in one.slots(self._block_size)],
            padded([one.blocks for one in slices]).repeat([len(one.tokens) for one in slices], axis=0),
        )

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
        """Ends the decoder's threads, or frees its recordings."""
        if self._decoder is not None:
            self._decoder.close()


def _is_for(decoder: Decoder, slices: Sequence[Slice]) -> bool:
    rows = sum(len(one.tokens) for one in slices)
    seen = sum(len(one.tokens) * one.end for one in slices if len(one.tokens) > 1)
    return rows <= decoder.most_rows and (not seen or (decoder.reads_prompts and seen <= MOST_SEEN))


def _index(numbers: Sequence[int], device: torch.device) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=device)
