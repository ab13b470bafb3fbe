"""How weights are held in memory: as they are, or in fewer bits with scales. Products have the type of their rows."""

import math
from dataclasses import dataclass
from enum import StrEnum

import torch

from backstay_runtime.model import memory, scratch
from backstay_runtime.model.dense import linear

GROUP = 32
"""Columns that share a scale in INT4."""

FP16_MAX = 65504.0
"""The largest finite float16."""

_NOT_FINITE = "a weight is no finite number"

_ROWS_AT_ONCE = 8192
"""Rows of a matrix that are widened at a time: a whole output head would take 100 MB for a moment."""


class Held(StrEnum):
    """The type of the weights in memory."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    """One scale a row (output channel), symmetric."""
    INT4 = "int4"
    """One scale for every GROUP columns of a row; two weights a byte, the row's first half in the low bits."""

    def bytes_of(self, rows: int, columns: int) -> int:
        """Memory of a matrix, scales included."""
        if self is Held.INT4:
            return rows * (columns // 2 + columns // GROUP * 4)
        return rows * (columns + 4 if self is Held.INT8 else _PLAIN[self].itemsize * columns)


_PLAIN = {Held.FLOAT32: torch.float32, Held.FLOAT16: torch.float16, Held.BFLOAT16: torch.bfloat16}
"""Those that are numbers of the processor's own."""

_BOTH_OF_16_BITS = {torch.float16, torch.bfloat16}

_STORED = _PLAIN | {Held.INT8: torch.int8, Held.INT4: torch.uint8}


@dataclass(frozen=True, slots=True)
class Matrix:
    """[out, in] weights. `scales`: [out, 1] float32, or [out, in / GROUP] for INT4."""

    held: Held
    data: torch.Tensor
    scales: torch.Tensor

    @classmethod
    def empty(cls, held: Held, rows: int, columns: int, device: torch.device) -> "Matrix":
        """Memory for [rows, columns] weights, to be filled. Raises ValueError where they cannot be held so."""
        width, scales, dtype = columns, 1, _STORED[held]
        if held is Held.INT4:
            if columns % GROUP:
                raise ValueError(f"{columns} columns are no multiple of the {GROUP} that share a scale")
            width, scales = columns // 2, columns // GROUP
        data = memory.empty((rows, width), dtype, device)
        return cls(held, data, torch.ones(rows, scales, device=device))

    @classmethod
    def of(cls, weight: torch.Tensor, held: Held) -> "Matrix":
        """[out, in] float weights, held so. Raises ValueError where that cannot be."""
        matrix = cls.empty(held, len(weight), weight.shape[1], weight.device)
        matrix.fill(weight)
        return matrix

    def fill(self, weight: torch.Tensor) -> None:
        """Holds [out, in] float weights. Raises ValueError where that cannot be."""
        if self.plain:
            self.check(weight)
            if {weight.dtype, self.data.dtype} == _BOTH_OF_16_BITS and weight.device.type == "cpu":
                # Over float32, as torch takes five times as long from one to the other.
                weight = scratch.like(weight).copy_(weight)
            self.data.copy_(weight)
            return
        numbers, scales = (_per_row if self.held is Held.INT8 else _per_group)(weight.float())
        if not bool(scales.isfinite().all()):
            raise ValueError(_NOT_FINITE)
        self.data.copy_(numbers)
        self.scales.copy_(scales)

    def check(self, weight: torch.Tensor) -> None:
        """Raises ValueError when a weight is beyond the numbers that are held."""
        if self.held is Held.FLOAT16:
            lowest, highest = (float(one) for one in weight.aminmax())
            if not math.isfinite(lowest + highest):
                raise ValueError(_NOT_FINITE)
            if not -FP16_MAX <= lowest <= highest <= FP16_MAX:
                raise ValueError(f"a weight is larger than float16's {FP16_MAX:g}")

    @property
    def plain(self) -> bool:
        """Whether the numbers are held as they are, in the type of `data`."""
        return self.held in _PLAIN

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        return sum(one.numel() * one.element_size() for one in (self.data, self.scales))

    def __getitem__(self, rows: slice) -> "Matrix":
        return Matrix(self.held, self.data[rows], self.scales[rows])

    def widened(self) -> torch.Tensor:
        """[out, in] float32; itself where it is."""
        if self.held is Held.INT4:
            numbers = torch.cat((self.data & 15, self.data >> 4), dim=-1).float().sub_(8.0)
            groups = numbers.view(len(self.data), -1, GROUP).mul_(self.scales[:, :, None])
            return groups.view(len(self.data), -1)
        wide = self.data.float()
        return wide.mul_(self.scales) if self.held is Held.INT8 else wide

    def pick(self, rows: torch.Tensor) -> torch.Tensor:
        """[rows, in] float32: these rows of the matrix, as an embedding is looked up."""
        return Matrix(self.held, self.data[rows], self.scales[rows]).widened()

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """[rows, in] -> [rows, out], in the type of `rows`."""
        if self.data.dtype == rows.dtype:
            return linear(rows, self.data)
        starts = range(0, len(self.data), _ROWS_AT_ONCE)
        parts = [self[at : at + _ROWS_AT_ONCE]._product(rows) for at in starts]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def _product(self, rows: torch.Tensor) -> torch.Tensor:
        if self.held is Held.INT4 or rows.dtype != torch.float32 or rows.device.type != "cpu":
            return linear(rows, self.widened().to(rows.dtype))
        product = linear(rows, scratch.like(self.data).copy_(self.data))
        return product.mul_(self.scales[:, 0]) if self.held is Held.INT8 else product


def _per_row(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers and scales."""
    scales = (weight.abs().amax(dim=1, keepdim=True) / 127).clamp_min(torch.finfo(torch.float32).tiny)
    return (weight / scales).round_(), scales


def _per_group(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers, two in a byte, and scales."""
    groups = weight.view(len(weight), -1, GROUP)
    # The number farthest from 0 becomes -8: so all 16 values are used.
    farthest = groups.gather(-1, groups.abs().argmax(dim=-1, keepdim=True))
    scales = farthest / -8
    numbers = (groups / torch.where(scales == 0, 1.0, scales)).round_().clamp_(-8, 7).add_(8).to(torch.uint8)
    low, high = numbers.view(len(weight), -1).chunk(2, dim=1)
    return low | (high << 4), scales.squeeze(-1)
