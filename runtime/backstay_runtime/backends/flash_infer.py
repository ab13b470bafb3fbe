"""Attention by FlashInfer's kernels, which read keys and values from the pages where they are.

One plan a step serves all layers, and all slices: a decoded token is a slice of one. Its causal mask is aligned to the
end of what a sequence holds, so a chunk of a prompt sees what earlier chunks stored.
"""

from typing import Any

import torch

from backstay_runtime.batch import Layout, Slice
from backstay_runtime.kv.cache import KEY, VALUE, KVCache

DTYPES = (torch.float16, torch.bfloat16)
HEAD_DIMS = (64, 128, 256)
"""Those that its kernels are compiled for."""

_WORKSPACE_BYTES = 128 << 20
"""What its documentation recommends, for the partial results of long sequences."""


class UnusableError(Exception):
    """FlashInfer cannot attend over this cache; the message says why."""


class FlashInfer:
    """One of its wrappers. `library` is the module `flashinfer`."""

    def __init__(self, cache: KVCache, heads: int, library: Any) -> None:
        """`heads`: of the queries. Raises UnusableError for numbers that its kernels do not take."""
        _, _, self._block_size, _, self._kv_heads, self._head_dim = cache.whole.shape
        if cache.whole.dtype not in DTYPES or self._head_dim not in HEAD_DIMS:
            raise UnusableError(f"heads of {self._head_dim} {cache.whole.dtype} are none of {HEAD_DIMS} in 16 bits")
        self._cache = cache
        self._heads = heads
        device = cache.whole.device
        workspace = torch.zeros(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)
        # "fa2" runs on every GPU since Turing, and is the one whose reading of strided pages has been looked up.
        self._wrapper = library.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD", backend="fa2")

    def attention(self, layout: Layout) -> "Planned":
        """Plans the step, on the CPU: the lists never were on the device."""
        slices = [one for group in layout.groups for one in group.slices]
        pages = [list(one.blocks[: self._pages(one)]) for one in slices]
        self._wrapper.plan(
            _counted([len(one.tokens) for one in slices]),
            _counted([len(one) for one in pages]),
            _whole([page for one in pages for page in one]),
            _whole([(one.end - 1) % self._block_size + 1 for one in slices]),
            self._heads,
            self._kv_heads,
            self._head_dim,
            self._block_size,
            causal=True,
            q_data_type=self._cache.whole.dtype,
        )
        slots = torch.tensor(layout.slots, dtype=torch.long, device=self._cache.whole.device)
        return Planned(self._cache, slots, self._wrapper)

    def _pages(self, one: Slice) -> int:
        return -(-one.end // self._block_size)


class Planned:
    """The wrapper's present plan, and where the step's rows are stored."""

    def __init__(self, cache: KVCache, slots: torch.Tensor, wrapper: Any) -> None:
        self._cache = cache
        self._slots = slots
        self._wrapper = wrapper

    def __call__(self, layer: int, queries: torch.Tensor, keys_values: torch.Tensor) -> torch.Tensor:
        """[rows, heads, head_dim] and [rows, 2, kv_heads, head_dim] -> [rows, heads × head_dim]."""
        rows = len(self._slots)
        self._cache.write(layer, self._slots, keys_values[:rows])
        pages = self._cache.layers[layer]
        # Queries are part of a wider row; they are copied, as they are few, so that all strides are the common ones.
        seen = self._wrapper.run(queries[:rows].contiguous(), (pages[:, :, KEY], pages[:, :, VALUE])).flatten(1)
        if rows == len(queries):
            return seen  # type: ignore[no-any-return]
        return torch.cat((seen, seen.new_zeros(len(queries) - rows, seen.shape[1])))


def _counted(counts: list[int]) -> torch.Tensor:
    """[0, counts[0], counts[0] + counts[1], …] in int32, on the CPU."""
    return torch.tensor([0, *counts], dtype=torch.int32).cumsum(0, dtype=torch.int32)


def _whole(numbers: list[int]) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)
