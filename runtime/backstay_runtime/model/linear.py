"""Matrix products with weights that do not change: packed once where that pays, plain otherwise."""

from collections.abc import Callable
from enum import StrEnum

import torch
from torch.nn import functional

Linear = Callable[[torch.Tensor], torch.Tensor]
"""[rows, in] float -> [rows, out]."""

FP16_MAX = 65504.0
"""The largest finite float16."""

_PACKED_FOR_ROWS = 64
"""Rows that oneDNN lays the weights out for. Any number from 4 on gives a layout that is as fast for 1 … 256 rows."""


class Dtype(StrEnum):
    """How weights are held."""

    AUTO = "auto"
    """float32 on a CPU, float16 on a GPU."""
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    """On a CPU some 1.4 times faster than float32, and log-probabilities are off by up to 0.015."""


class PackedFp32:
    """float32 weights in oneDNN's own order: exact, and no repacking at every call as in F.linear."""

    def __init__(self, weight: torch.Tensor) -> None:
        """`weight`: [out, in] float32 on the CPU; it may be freed afterwards."""
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, _PACKED_FOR_ROWS)
        self._product = torch.ops.mkldnn._linear_pointwise

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = self._product(rows, self._packed, None, "none", [], "")
        return product


class PackedFp16:
    """float16 weights in the CPU kernel's own order, products summed in float32."""

    def __init__(self, weight: torch.Tensor) -> None:
        """`weight`: [out, in] float32 on the CPU, all |w| < FP16_MAX; it may be freed afterwards."""
        self._packed = torch.ops.quantized.linear_prepack_fp16(weight, None)
        self._product = torch.ops.quantized.linear_dynamic_fp16

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = self._product(rows, self._packed)
        return product


class Plain:
    """F.linear on a tensor of the device's own."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._weight = weight

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        return functional.linear(rows, self._weight)


Pack = Callable[[torch.Tensor], Linear]


def packer(dtype: Dtype, device: torch.device) -> Pack:
    """The way in which weights are packed on this machine. Each kernel is tried on a small product first."""
    if device.type != "cpu":
        return Plain
    exact: Pack = PackedFp32 if _right(PackedFp32, tolerance=1e-5) else Plain
    if dtype is not Dtype.FLOAT16 or not _right(PackedFp16, tolerance=1e-2):
        return exact

    def pack(weight: torch.Tensor) -> Linear:
        return PackedFp16(weight) if float(weight.abs().max()) < FP16_MAX else exact(weight)

    return pack


def _right(kind: Pack, tolerance: float) -> bool:
    """Whether the kernel exists here and its products are right."""
    generator = torch.Generator().manual_seed(7)
    weight = torch.randn(48, 64, generator=generator)
    rows = torch.randn(3, 64, generator=generator)
    try:
        found = kind(weight)(rows)
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
    exact = rows.double() @ weight.double().T
    return bool((found.double() - exact).abs().max() < tolerance * exact.abs().max())
