"""Reading tensors out of a safetensors file into memory that is there, instead of mapping it.

A page of a mapped file that is touched for the first time costs more than to copy it, and mapped pages count as the
process's memory beside the weights that were made of them.
"""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch

from backstay_runtime.model.errors import ModelError

KINDS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
PIECE_BYTES = 1024 * 1024
"""Read at a time to be converted: stays in a processor's cache until it is."""
MOST_BYTES = 16 * 1024 * 1024
"""Of one read into the weights' own memory."""
READS = 4
"""At a time: one processor does not copy as quickly as memory takes it, nor one read keep a disk busy."""


class Entry(NamedTuple):
    """One tensor's place in the file."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    """Bytes from the file's beginning."""

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


class WeightFile:
    """A safetensors file whose header was found to be right."""

    def __init__(self, path: Path, stack: ExitStack, readers: Executor) -> None:
        """`stack` closes it. `readers`: read ahead of what is converted."""
        self._name = path.name
        self._readers = readers
        self._buffers: list[torch.Tensor] = []
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, self._descriptor)
        size = int.from_bytes(os.pread(self._descriptor, 8, 0), "little")
        header = json.loads(os.pread(self._descriptor, size, 8))
        self.entries = {
            name: Entry(KINDS[entry["dtype"]], tuple(entry["shape"]), 8 + size + entry["data_offsets"][0])
            for name, entry in header.items()
            if name != "__metadata__" and entry["dtype"] in KINDS
        }

    def reads(self, name: str, out: torch.Tensor) -> Iterator[Callable[[], None]]:
        """What reads the tensor into contiguous memory on the CPU, of its type and size; each raises ModelError."""
        entry = self.entries[name]
        view = _bytes_of(out)
        for at in range(0, entry.bytes, MOST_BYTES):
            yield partial(self._fill, view[at : at + MOST_BYTES], entry.start + at)

    def pieces(self, name: str) -> Iterator[tuple[int, torch.Tensor]]:
        """The matrix in pieces: the first row's number, and [rows, in]. A piece holds until the next is asked for.

        One matrix at a time: all pieces come in the same memory, which would cost more to have anew than to fill.
        """
        dtype, (rows, columns), start = self.entries[name]
        row_bytes = columns * dtype.itemsize
        step = max(1, PIECE_BYTES // row_bytes)
        buffers = self._buffers_of(step * row_bytes)

        def read(index: int) -> torch.Tensor:
            at = index * step
            count = min(step, rows - at)
            buffer = buffers[index % 2][: count * row_bytes]
            self._fill(_bytes_of(buffer), start + at * row_bytes)
            return buffer.view(dtype).view(count, columns)

        coming = self._readers.submit(read, 0)
        for index, at in enumerate(range(0, rows, step)):
            piece = coming.result()
            if at + step < rows:
                coming = self._readers.submit(read, index + 1)
            yield at, piece

    def _buffers_of(self, size: int) -> list[torch.Tensor]:
        if not self._buffers or len(self._buffers[0]) < size:
            self._buffers = [torch.empty(size, dtype=torch.uint8) for _ in range(2)]
        return self._buffers

    def _fill(self, view: memoryview, at: int) -> None:
        while view:
            count = os.preadv(self._descriptor, [view], at)
            if count == 0:
                raise ModelError(f"{self._name} became shorter while it was read")
            view, at = view[count:], at + count


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    array: Any = tensor.view(-1).view(torch.uint8).numpy()
    return memoryview(array)
