"""The tensor that holds keys and values of all sequences, in blocks."""

import math
import mmap

import torch

KEY, VALUE = 0, 1


class KVCache:
    """[layers, blocks, block_size, 2, kv_heads, head_dim], in one piece of memory.

    Keys and values of a token lie side by side: one write and one gather per layer serve both. Zeroed, since a
    masked position still takes part in the product, and 0 × NaN is NaN.
    """

    def __init__(
        self,
        blocks: int,
        block_size: int,
        *,
        layers: int,
        kv_heads: int,
        head_dim: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.whole = _zeros((layers, blocks, block_size, 2, kv_heads, head_dim), device, dtype)
        self.layers = list(self.whole)
        self._slots = [layer.view(blocks * block_size, 2, kv_heads, head_dim) for layer in self.layers]

    def write(self, layer: int, slots: torch.Tensor, keys_values: torch.Tensor) -> None:
        """Stores [rows, 2, kv_heads, head_dim] at `slots` = block × block_size + offset, one per row."""
        self._slots[layer].index_copy_(0, slots, keys_values)

    def read(self, layer: int, blocks: torch.Tensor, sequences: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of `sequences` block tables of equal length, laid one after another in `blocks`.

        Each is [sequences, kv_heads, tokens, head_dim], tokens in the order of the tables.
        """
        gathered = self.layers[layer].index_select(0, blocks)
        _, _, _, kv_heads, head_dim = gathered.shape
        both = gathered.view(sequences, -1, 2, kv_heads, head_dim)
        return both[:, :, KEY].transpose(1, 2), both[:, :, VALUE].transpose(1, 2)

    def clear(self, blocks: list[int]) -> None:
        """Zeroes blocks whose numbers are not finite before another sequence gets them."""
        index = torch.tensor(blocks, device=self.layers[0].device)
        for layer in self.layers:
            layer.index_fill_(0, index, 0.0)


def _zeros(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Zeros that, on a CPU, take memory only where something has been written: torch.zeros would touch it all."""
    if device.type != "cpu":
        return torch.zeros(shape, device=device, dtype=dtype)
    size = math.prod(shape)
    return torch.frombuffer(mmap.mmap(-1, size * dtype.itemsize), dtype=dtype, count=size).view(shape)
