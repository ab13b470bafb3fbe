"""The compiled step behind plain calls: its buffers, and the threads that share the work."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from backstay_runtime.kernels import step as kernels
from backstay_runtime.kernels.step import Batch, Projection, Scratch, Weights
from backstay_runtime.kv.cache import KVCache
from backstay_runtime.model.held import Held, Matrix
from backstay_runtime.model.llama import Llama, Stage
from backstay_runtime.model.stack import Stack

MOST_ROWS = 128
"""Rows up to which each weight is used right where it is read. With more, the library's products are about as quick on
one thread, and better where rows no longer fit near the processor. Measured by benchmarks.engine.step."""


MOST_SEEN = 16_384
"""Positions that a prompt's rows see, all together: each row reads them anew here, and the library's attention reads
them once for many rows. With 2,000 tokens in the cache, 128 rows took twice as long."""


class CompiledDecoder:
    """Computes up to `most_rows` tokens, whichever sequences they are of. Not thread-safe: one thread calls it."""

    reads_prompts = True

    def __init__(self, model: Llama, cache: KVCache, threads: int) -> None:
        """Compiles for this model's shapes, which takes seconds. `threads`: that compute at once."""
        (stage,) = model.stages
        self.most_rows = MOST_ROWS
        self._model = model
        self._parts = threads
        self._others = ThreadPoolExecutor(max(1, threads - 1), thread_name_prefix="decoder")
        self._weights = _weights(model, stage)
        self._tables = (_array(stage.cosines[:, 0]), _array(stage.sines[:, 0]))
        self._cache = cache.whole.numpy()
        self._memory: dict[str, Any] = {}
        self._head = (_data(model.head), _array(model.head.scales))

    def hidden(
        self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int], blocks: Any
    ) -> torch.Tensor:
        """[rows, hidden] of the tokens, before the last norm. `blocks`: int64 [rows, width], padded."""
        scratch = self._scratch_for(len(tokens))
        state = self._model.embed(torch.tensor(tokens))
        scratch.state[:] = state.numpy()
        batch = Batch(np.array(positions), np.array(slots), blocks, *self._tables)
        self._together(kernels.step, self._weights, batch, scratch, self._cache)
        return torch.from_numpy(scratch.state.copy())

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[rows, hidden] -> [rows, vocabulary] float32."""
        normed = self._model.normed(hidden).numpy()
        out = np.empty((len(normed), len(self._head[0])), dtype=np.float32)
        self._together(kernels.head, normed, *self._head, out)
        return torch.from_numpy(out)

    def close(self) -> None:
        """Ends the threads."""
        self._others.shutdown()

    def _together(self, work: Callable[..., None], *arguments: Any) -> None:
        """The same work on every thread, each with its part. Interpreter and thread pool are asked once a step."""
        others = [self._others.submit(work, part, self._parts, *arguments) for part in range(1, self._parts)]
        work(0, self._parts, *arguments)
        for other in others:
            other.result()

    def _scratch_for(self, rows: int) -> Scratch:
        config, parts = self._model.config, self._parts
        each = config.heads // config.kv_heads
        shapes = {
            "normed": (parts, rows, config.hidden),
            "scores": (parts, each, len(self._tables[0])),
            "turned": (parts, each, config.head_dim),
            "state": (rows, config.hidden),
            "qkv": (rows, (config.heads + 2 * config.kv_heads) * config.head_dim),
            "mixed": (rows, config.heads * config.head_dim),
            "gate_up": (rows, 2 * config.intermediate),
            "fed": (rows, config.intermediate),
            "added": (rows, config.hidden),
        }
        buffers = {name: self._buffer(name, shape) for name, shape in shapes.items()}
        return Scratch(**buffers, arrived=np.zeros(1, dtype=np.int64))

    def _buffer(self, name: str, shape: tuple[int, ...]) -> Any:
        """The same memory for any number of rows. torch's begins on a line of the processor's cache."""
        size = math.prod(shape)
        if name not in self._memory or len(self._memory[name]) < size:
            self._memory[name] = torch.zeros(size).numpy()
        return self._memory[name][:size].reshape(shape)


def padded(tables: Sequence[Sequence[int]]) -> Any:
    """Block tables of any lengths as one int64 array."""
    width = max(len(table) for table in tables)
    found = np.zeros((len(tables), width), dtype=np.int64)
    for row, table in enumerate(tables):
        found[row, : len(table)] = table
    return found


def _weights(model: Llama, stage: Stage) -> Weights:
    return Weights(
        attention_norm=_array(stage.attention_norm),
        qkv=_projection(stage.qkv),
        head_norms=_array(stage.head_norms),
        output=_projection(stage.output),
        feed_norm=_array(stage.feed_norm),
        gate_up=_projection(stage.gate_up),
        down=_projection(stage.down),
        epsilon=model.config.norm_epsilon,
        heads=model.config.heads,
        kv_heads=model.config.kv_heads,
    )


def _projection(stack: Stack) -> Projection:
    return Projection(_data(stack), _array(stack.scales), _array(stack.bias))


def _data(held: Stack | Matrix) -> Any:
    """The stored numbers; those of 16 bits as whole numbers whose type tells compiled code what their bits are."""
    if held.held is Held.BFLOAT16:
        return _array(held.data.view(torch.int16))
    array = _array(held.data)
    return array.view(np.uint16) if held.held is Held.FLOAT16 else array


def _array(tensor: torch.Tensor) -> Any:
    """The same memory."""
    return tensor.numpy()
