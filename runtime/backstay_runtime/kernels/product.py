"""Products of a few rows with a weight matrix, for each way in which weights are held."""

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from backstay_runtime.kernels.blocks import WEIGHTS, all_rows
from backstay_runtime.kernels.jit import compiled, high_bits, low_bits, widen

GROUP = 32
"""Columns that share a scale where weights have 4 bits."""


def product(rows: Any, data: Any, scales: Any, first: int, last: int, out: Any) -> None:
    """out[:, first:last] = rows @ weight[first:last].T; only for compiled code.

    The weight is data[n, k] × scales[n, 0]; where `data` is uint8, two of 4 bits to a byte, see `widen_four_bits`.
    """
    raise NotImplementedError


@compiled
def plain_product(rows: Any, data: Any, scales: Any, first: int, last: int, out: Any) -> None:
    """Weights of one number each, four rows of them at a time; those that are left over one by one."""
    whole = last - (last - first) % WEIGHTS
    all_rows(rows, data, first, whole, scales, out)
    for n in range(whole, last):
        for m in range(rows.shape[0]):
            total = np.float32(0)
            for k in range(rows.shape[1]):
                total += widen(data[n, k]) * rows[m, k]
            out[m, n] = total * scales[n, 0]


@compiled
def four_bit_product(rows: Any, data: Any, scales: Any, first: int, last: int, out: Any) -> None:
    """Weights of 4 bits each, widened into a buffer that stays in the nearest cache."""
    wide = np.empty((WEIGHTS, rows.shape[1]), dtype=np.float32)
    ones = np.ones((WEIGHTS, 1), dtype=np.float32)
    for n in range(first, last, WEIGHTS):
        count = min(WEIGHTS, last - n)
        for one in range(count):
            widen_four_bits(data[n + one], scales[n + one], wide[one])
        plain_product(rows, wide, ones, 0, count, out[:, n : n + count])


@compiled
def widen_four_bits(data: Any, scales: Any, wide: Any) -> None:
    """One row of weights as float32: byte k holds column k in its low bits, and column k + half in its high ones.

    Each is its number less 8, times its group's scale. Slices, as an index that might be negative is not vectorised.
    """
    half, groups = data.shape[0], data.shape[0] // GROUP
    if half % GROUP:
        return widen_across(data, scales, wide)
    for g in range(groups):
        start, end = g * GROUP, (g + 1) * GROUP
        both, first, second = data[start:end], wide[start:end], wide[half + start : half + end]
        low, high = scales[g], scales[groups + g]
        for k in range(GROUP):
            first[k] = (low_bits(both[k]) - np.float32(8)) * low
            second[k] = (high_bits(both[k]) - np.float32(8)) * high
    return None


@compiled
def widen_across(data: Any, scales: Any, wide: Any) -> None:
    """The same where a group lies across the two halves."""
    half = data.shape[0]
    for k in range(half):
        wide[k] = (low_bits(data[k]) - np.float32(8)) * scales[k // GROUP]
        wide[half + k] = (high_bits(data[k]) - np.float32(8)) * scales[(half + k) // GROUP]


@overload(product)
def _product(rows: Any, data: Any, scales: Any, first: Any, last: Any, out: Any) -> Any:  # noqa: ARG001 - as product
    def plain(rows: Any, data: Any, scales: Any, first: Any, last: Any, out: Any) -> None:
        plain_product(rows, data, scales, first, last, out)

    def four_bit(rows: Any, data: Any, scales: Any, first: Any, last: Any, out: Any) -> None:
        four_bit_product(rows, data, scales, first, last, out)

    return four_bit if data.dtype == types.uint8 else plain
