"""Norms, rotary positions and attention of single heads, over the paged cache."""

import math
from typing import Any

import numpy as np

from backstay_runtime.kernels.jit import compiled


@compiled
def norm_into(row: Any, weight: Any, epsilon: float, out: Any) -> None:
    """out = RMSNorm(row) × weight; `out` may be `row`."""
    width = row.shape[0]
    total = np.float32(0)
    for k in range(width):
        total += row[k] * row[k]
    factor = np.float32(1.0 / math.sqrt(total / width + epsilon))
    for k in range(width):
        out[k] = row[k] * factor * weight[k]


@compiled
def rotate(head: Any, cosines: Any, sines: Any) -> None:
    """Turns one head in place; the first half of the sines is negated, as in `model.rope`."""
    half = head.shape[0] // 2
    # Slices, as an index that might be negative is not vectorised.
    first, second, cosine = head[:half], head[half:], cosines[:half]
    down, up = sines[:half], sines[half:]
    for k in range(half):
        low, high = first[k], second[k]
        first[k] = low * cosine[k] + high * down[k]
        second[k] = high * cosine[k] + low * up[k]


@compiled
def attend(query: Any, cache: Any, kv_head: int, blocks: Any, length: int, scores: Any, out: Any) -> None:
    """One query head over `length` positions; cache is one layer's [blocks, block_size, 2, kv_heads, head_dim]."""
    size, width = cache.shape[1], query.shape[0]
    scale = np.float32(1.0 / math.sqrt(width))
    highest = np.float32(-np.inf)
    for at in range(length):
        key = cache[blocks[at // size], at % size, 0, kv_head]
        score = np.float32(0)
        for k in range(width):
            score += query[k] * key[k]
        scores[at] = score * scale
        highest = max(highest, scores[at])
    total = np.float32(0)
    for at in range(length):
        scores[at] = np.float32(math.exp(scores[at] - highest))
        total += scores[at]
    for k in range(width):
        out[k] = np.float32(0)
    for at in range(length):
        value = cache[blocks[at // size], at % size, 1, kv_head]
        share = scores[at] / total
        for k in range(width):
            out[k] += share * value[k]
