"""Whether weights of fewer bits are quicker on this machine: measured, as no flag of a processor tells."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from backstay_runtime.kernels.product import four_bit_product, plain_product
from backstay_runtime.model.held import Held, Matrix

_ROWS, _COLUMNS = 16_384, 1024
"""64 MB in float32: more than the processor's own cache, in most."""
_TURNS = 5
_TOLERATED = 1.1
"""Slower by less than this is noise."""


def slower(held: Held, device: torch.device) -> str | None:
    """Why this way of holding weights is refused, or None where it is not slower than full precision."""
    if held not in (Held.INT8, Held.INT4):
        return None
    if device.type != "cpu":
        return (
            f"quantization {held}: on a GPU its weights are widened at every step, which is slower than float16; leave "
            "it out, or set forceQuantization to save memory all the same"
        )
    quantized, full = measured(held)
    if quantized <= full * _TOLERATED:
        return None
    return (
        f"quantization {held}: a product takes {quantized * 1000:.2f} ms on this processor, and {full * 1000:.2f} ms "
        "in float32; leave it out, or set forceQuantization to save memory all the same"
    )


def measured(held: Held) -> tuple[float, float]:
    """Seconds of one row's product on one thread, with such weights and with float32 ones; the best of some turns."""
    weight = torch.randn(_ROWS, _COLUMNS, generator=torch.Generator().manual_seed(3))
    ways = [_way(Matrix.of(weight, kind)) for kind in (held, Held.FLOAT32)]
    times: list[list[float]] = [[], []]
    for _ in range(_TURNS):  # in turn: a machine that becomes busy is so for both
        for way, found in zip(ways, times, strict=True):
            began = time.thread_time()
            way()
            found.append(time.thread_time() - began)
    return min(times[0]), min(times[1])


def _way(matrix: Matrix) -> Callable[[], None]:
    row = np.ones((1, _COLUMNS), dtype=np.float32)
    out = np.empty((1, _ROWS), dtype=np.float32)
    product: Any = four_bit_product if matrix.held is Held.INT4 else plain_product
    data, scales = matrix.data.numpy(), matrix.scales.numpy()
    product(row, data[:16], scales[:16], 0, 16, out)  # compiles

    def run() -> None:
        product(row, data, scales, 0, _ROWS, out)

    return run
