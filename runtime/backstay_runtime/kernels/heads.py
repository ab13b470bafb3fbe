"""Norms, rotary positions and attention of single heads, over the paged cache."""

import math
from typing import Any

import numpy as np

from backstay_runtime.kernels.exponential import exponential
from backstay_runtime.kernels.jit import compiled, fetch


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
def attend(queries: Any, cache: Any, kv_head: int, blocks: Any, length: int, scores: Any, out: Any) -> None:
    """The query heads [heads, head_dim] that share a key head, over `length` positions.

    cache: one layer's [blocks, block_size, 2, kv_heads, head_dim]; scores: [heads, at least `length`]; out: [heads ×
    head_dim]. Block by block, so that what one head has loaded is near when the next one needs it, and the next block
    is asked for ahead: three heads over 500 positions take 24 µs out of memory instead of 34.
    """
    size, width, heads = cache.shape[1], queries.shape[1], queries.shape[0]
    for start in range(0, length, size):
        block, count = cache[blocks[start // size]], min(size, length - start)
        near(cache, 0, kv_head, blocks, start // size + 1, length)
        for head in range(heads):
            score(queries[head], block, kv_head, count, scores[head, start:])
    for head in range(heads):
        soften(scores[head, :length], np.float32(1.0 / math.sqrt(width)))
    out[:] = 0
    for start in range(0, length, size):
        block, count = cache[blocks[start // size]], min(size, length - start)
        near(cache, 1, kv_head, blocks, start // size + 1, length)
        for head in range(heads):
            blend(scores[head, start:], block, kv_head, count, out[head * width : (head + 1) * width])


@compiled
def near(cache: Any, part: int, kv_head: int, blocks: Any, place: int, length: int) -> None:
    """Asks for the keys (part 0) or values (1) of the block at that place of the table, if it is in use."""
    if place * cache.shape[1] < length:
        block = cache[blocks[place]]
        for i in range(block.shape[0]):
            fetch(block[i, part, kv_head])


@compiled
def score(query: Any, block: Any, kv_head: int, count: int, scores: Any) -> None:
    """scores[i] = query · key i, of a block's first `count` keys; four at a time."""
    whole = count - count % 4
    for i in range(0, whole, 4):
        w, x = block[i, 0, kv_head], block[i + 1, 0, kv_head]
        y, z = block[i + 2, 0, kv_head], block[i + 3, 0, kv_head]
        sw, sx, sy, sz = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for k in range(query.shape[0]):
            sw += query[k] * w[k]
            sx += query[k] * x[k]
            sy += query[k] * y[k]
            sz += query[k] * z[k]
        scores[i], scores[i + 1], scores[i + 2], scores[i + 3] = sw, sx, sy, sz
    for i in range(whole, count):
        key, total = block[i, 0, kv_head], np.float32(0)
        for k in range(query.shape[0]):
            total += query[k] * key[k]
        scores[i] = total


@compiled
def soften(scores: Any, scale: Any) -> None:
    """Softmax of scores × scale, in place."""
    highest = scores[0]
    for i in range(scores.shape[0]):
        highest = max(highest, scores[i])
    total = np.float32(0)
    for i in range(scores.shape[0]):
        scores[i] = exponential((scores[i] - highest) * scale)
        total += scores[i]
    for i in range(scores.shape[0]):
        scores[i] /= total


@compiled
def blend(shares: Any, block: Any, kv_head: int, count: int, out: Any) -> None:
    """out += shares[i] × value i, of a block's first `count` values; four at a time."""
    whole = count - count % 4
    for i in range(0, whole, 4):
        w, x = block[i, 1, kv_head], block[i + 1, 1, kv_head]
        y, z = block[i + 2, 1, kv_head], block[i + 3, 1, kv_head]
        sw, sx, sy, sz = shares[i], shares[i + 1], shares[i + 2], shares[i + 3]
        for k in range(out.shape[0]):
            out[k] += sw * w[k] + sx * x[k] + sy * y[k] + sz * z[k]
    for i in range(whole, count):
        value, share = block[i, 1, kv_head], shares[i]
        for k in range(out.shape[0]):
            out[k] += share * value[k]
