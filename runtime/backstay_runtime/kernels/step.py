"""A few tokens, of one sequence or of several, through all layers. Every thread runs `step` with a part of its own."""

from typing import Any, NamedTuple

import numpy as np

from backstay_runtime.kernels.exponential import exponential
from backstay_runtime.kernels.heads import attend, norm_into, rotate
from backstay_runtime.kernels.jit import add_atomic, compiled, yield_processor
from backstay_runtime.kernels.product import product

_SPINS = 2000
"""Looks at the counter before the processor is given away: a few microseconds, as layers are short."""

_LINE = 16
"""Columns in a line of the processor's cache: threads write to lines of their own."""


class Projection(NamedTuple):
    """One matrix of every layer: data [layers, out, …], scales [layers, out, …], bias [layers, out]."""

    data: Any
    scales: Any
    bias: Any


class Weights(NamedTuple):
    """The decoder. `head_norms`: [layers, 2, head_dim], for queries and keys; of no rows where it has none."""

    attention_norm: Any
    qkv: Projection
    head_norms: Any
    output: Projection
    feed_norm: Any
    gate_up: Projection
    down: Projection
    epsilon: float
    heads: int
    kv_heads: int


class Batch(NamedTuple):
    """A row a token: its position, its slot in the cache, its sequence's block table padded to a common width."""

    positions: Any
    slots: Any
    blocks: Any
    cosines: Any
    sines: Any


class Scratch(NamedTuple):
    """Buffers for a number of rows. The first three are each thread's own: [parts, …]."""

    normed: Any
    scores: Any
    turned: Any
    state: Any
    qkv: Any
    mixed: Any
    gate_up: Any
    fed: Any
    added: Any
    arrived: Any
    """Threads that came to a barrier, over the whole step; 0 before it."""


@compiled
def share(total: int, part: int, parts: int) -> tuple[int, int]:
    """Which of `total` columns are this thread's."""
    lines = (total + _LINE - 1) // _LINE
    return min(total, lines * part // parts * _LINE), min(total, lines * (part + 1) // parts * _LINE)


@compiled
def meet(arrived: Any, parts: int, crossed: int) -> int:
    """Waits until all threads are here; returns how many barriers have been crossed."""
    crossed += 1
    if parts > 1:
        add_atomic(arrived, 1)
        spins = 0
        while add_atomic(arrived, 0) < crossed * parts:
            spins += 1
            if spins > _SPINS:
                yield_processor()
    return crossed


@compiled
def project(rows: Any, matrix: Projection, layer: int, first: int, last: int, out: Any) -> None:
    """out[:, first:last] = rows @ weight.T + bias."""
    product(rows, matrix.data[layer], matrix.scales[layer], first, last, out)
    if matrix.bias.shape[0]:
        for m in range(rows.shape[0]):
            for n in range(first, last):
                out[m, n] += matrix.bias[layer, n]


@compiled
def store_unit(row: int, kv_head: int, layer: int, weights: Weights, batch: Batch, qkv: Any, cache: Any) -> None:
    """Stores one key and value of one row."""
    heads, kv_heads, width, size = weights.heads, weights.kv_heads, cache.shape[5], cache.shape[2]
    norms, place = weights.head_norms, cache[layer, batch.slots[row] // size, batch.slots[row] % size]
    key, value = place[0, kv_head], place[1, kv_head]
    copy(qkv[row, (heads + kv_heads + kv_head) * width :], value)
    copy(qkv[row, (heads + kv_head) * width :], key)
    if norms.shape[0]:
        norm_into(key, norms[layer, 1], weights.epsilon, key)
    rotate(key, batch.cosines[batch.positions[row]], batch.sines[batch.positions[row]])


@compiled
def attend_unit(row: int, kv_head: int, layer: int, weights: Weights, batch: Batch, own: Any, cache: Any) -> None:
    """Attends the query heads of one row that share a key head."""
    qkv, mixed, scores, turned = own
    width, each = turned.shape[1], weights.heads // weights.kv_heads
    norms, first = weights.head_norms, kv_head * each
    for head in range(each):
        query = turned[head]
        copy(qkv[row, (first + head) * width :], query)
        if norms.shape[0]:
            norm_into(query, norms[layer, 0], weights.epsilon, query)
        rotate(query, batch.cosines[batch.positions[row]], batch.sines[batch.positions[row]])
    out = mixed[row, first * width : (first + each) * width]
    attend(turned, cache[layer], kv_head, batch.blocks[row], batch.positions[row] + 1, scores, out)


@compiled
def copy(given: Any, out: Any) -> None:
    """The first of `given`, as many as `out` holds."""
    for k in range(out.shape[0]):
        out[k] = given[k]


@compiled
def feed(rows: Any, weights: Weights, layer: int, part: int, parts: int, scratch: Scratch) -> None:
    """SwiGLU of this thread's columns: gate and up of a column are the same thread's."""
    inner = scratch.fed.shape[1]
    first, last = share(inner, part, parts)
    project(rows, weights.gate_up, layer, first, last, scratch.gate_up)
    project(rows, weights.gate_up, layer, inner + first, inner + last, scratch.gate_up)
    for m in range(rows.shape[0]):
        gates, ups = scratch.gate_up[m, first:last], scratch.gate_up[m, inner + first : inner + last]
        fed = scratch.fed[m, first:last]
        for n in range(fed.shape[0]):
            fed[n] = gates[n] / (np.float32(1) + exponential(-gates[n])) * ups[n]


@compiled
def add_projected(rows: Any, matrix: Projection, layer: int, part: int, parts: int, scratch: Scratch) -> None:
    """state += rows @ weight.T, in this thread's columns."""
    first, last = share(scratch.state.shape[1], part, parts)
    project(rows, matrix, layer, first, last, scratch.added)
    for m in range(rows.shape[0]):
        for n in range(first, last):
            scratch.state[m, n] += scratch.added[m, n]


@compiled
def norm_all(state: Any, weight: Any, epsilon: float, out: Any) -> None:
    """RMSNorm of every row, which each thread does for itself: cheaper than waiting for another."""
    for m in range(state.shape[0]):
        norm_into(state[m], weight, epsilon, out[m])


@compiled
def step(part: int, parts: int, weights: Weights, batch: Batch, scratch: Scratch, cache: Any) -> None:
    """From embeddings in scratch.state to the hidden states there; cache: [layers, blocks, size, 2, kv_heads, dim]."""
    normed, own = scratch.normed[part], (scratch.qkv, scratch.mixed, scratch.scores[part], scratch.turned[part])
    units, crossed = batch.positions.shape[0] * weights.kv_heads, 0
    for layer in range(weights.attention_norm.shape[0]):
        norm_all(scratch.state, weights.attention_norm[layer], weights.epsilon, normed)
        first, last = share(scratch.qkv.shape[1], part, parts)
        project(normed, weights.qkv, layer, first, last, scratch.qkv)
        crossed = meet(scratch.arrived, parts, crossed)
        for unit in range(part, units, parts):
            store_unit(unit // weights.kv_heads, unit % weights.kv_heads, layer, weights, batch, scratch.qkv, cache)
        # A row sees the keys of its sequence's rows before it. Rows further on see more: each thread has some of those.
        crossed = meet(scratch.arrived, parts, crossed)
        for unit in range(part, units, parts):
            attend_unit(unit // weights.kv_heads, unit % weights.kv_heads, layer, weights, batch, own, cache)
        crossed = meet(scratch.arrived, parts, crossed)
        add_projected(scratch.mixed, weights.output, layer, part, parts, scratch)
        crossed = meet(scratch.arrived, parts, crossed)
        norm_all(scratch.state, weights.feed_norm[layer], weights.epsilon, normed)
        feed(normed, weights, layer, part, parts, scratch)
        crossed = meet(scratch.arrived, parts, crossed)
        add_projected(scratch.fed, weights.down, layer, part, parts, scratch)
        crossed = meet(scratch.arrived, parts, crossed)


@compiled
def head(part: int, parts: int, rows: Any, data: Any, scales: Any, out: Any) -> None:
    """Logits of normed rows, in this thread's part of the vocabulary."""
    first, last = share(out.shape[1], part, parts)
    product(rows, data, scales, first, last, out)
