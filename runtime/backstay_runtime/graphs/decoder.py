"""Decodes by steps that were recorded: one call instead of some fifteen a layer."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from backstay_runtime.attention import Group, PagedAttention
from backstay_runtime.graphs.capture import Capture, Replay
from backstay_runtime.graphs.inputs import Inputs
from backstay_runtime.graphs.shapes import MOST_ROWS, Shape, shape_for
from backstay_runtime.kv.cache import KVCache
from backstay_runtime.model.llama import Llama

_log = logging.getLogger(__name__)

WORTH = 16
"""Steps of a shape before it is recorded, which takes as long as several of them. The runs and the one token that come
before a pod is ready are fewer, so that no recording delays it."""

MOST_GRAPHS = 32
"""Recordings of one model: each takes memory of the driver's, too."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    inputs: Inputs
    replay: Replay


class GraphDecoder:
    """Decodes one token for each of up to `most_rows` sequences, of a model on one device.

    Not thread-safe: one thread calls it.
    """

    reads_prompts = False

    def __init__(self, model: Llama, cache: KVCache, capture: Capture, *, spare: int) -> None:
        """`spare`: a block of the cache that no sequence ever holds."""
        self.most_rows = MOST_ROWS
        self._model = model
        self._cache = cache
        self._capture = capture
        self._spare = spare
        self._block_size = cache.whole.shape[2]
        self._needs: Counter[Shape] = Counter()
        self._recorded: dict[Shape, _Recorded] = {}
        self._failed = False

    def hidden(
        self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int], blocks: Any
    ) -> torch.Tensor | None:
        """[rows, hidden] of one token a sequence, before the last norm. `blocks`: int64 [rows, width], padded.

        None where the step's shape is not recorded (yet): then nothing has been computed.
        """
        width = max(positions) // self._block_size + 1
        shape = shape_for(len(tokens), width)
        recorded = None if shape is None else self._recorded.get(shape) or self._record(shape)
        if recorded is None:
            return None
        recorded.inputs.fill(tokens, positions, slots, blocks[:, :width])
        return recorded.replay()[: len(tokens)].clone()

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[rows, hidden] -> [rows, vocabulary] float32."""
        return self._model.logits(hidden)

    def close(self) -> None:
        """Frees the recordings."""
        self._recorded.clear()
        self._capture.close()

    def _record(self, shape: Shape) -> _Recorded | None:
        self._needs[shape] += 1
        full = len(self._recorded) >= MOST_GRAPHS or not self._capture.room
        if self._failed or full or self._needs[shape] < WORTH:
            return None
        inputs = Inputs(shape, self._block_size, self._spare, self._cache.whole.device)
        try:
            replay = self._capture.capture(lambda: self._compute(shape, inputs))
        except RuntimeError as why:
            self._failed = True
            _log.warning("decoding goes on without recorded steps: one could not be recorded: %s", why)
            return None
        return self._recorded.setdefault(shape, _Recorded(inputs, replay))

    def _compute(self, shape: Shape, inputs: Inputs) -> torch.Tensor:
        seen = torch.arange(shape.width * self._block_size, device=self._cache.whole.device)
        mask = seen <= inputs.positions[:, None, None, None]
        group = Group(0, shape.rows, 1, inputs.blocks, mask)
        attend = PagedAttention(self._cache, inputs.slots, [group])
        return self._model.hidden(inputs.tokens, inputs.positions, [attend])
