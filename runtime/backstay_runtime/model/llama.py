"""The decoder's forward pass over a flat batch of rows, each row one token of some sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional

from backstay_runtime.model import rope
from backstay_runtime.model.config import LlamaConfig
from backstay_runtime.model.held import Matrix
from backstay_runtime.model.stack import Stack


class Attention(Protocol):
    """Stores the rows' keys and values and attends each row to its own sequence's past."""

    def __call__(self, layer: int, queries: torch.Tensor, keys_values: torch.Tensor) -> torch.Tensor:
        """[rows, heads, head_dim] and [rows, 2, kv_heads, head_dim] -> [rows, heads × head_dim]."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive layers on one device. `qkv` joins the query, key and value projections, `gate_up` SwiGLU's halves.

    Norms are [layers, width]; `head_norms`, of queries and keys, [layers, 2, head_dim], or of no rows.
    """

    attention_norm: torch.Tensor
    qkv: Stack
    head_norms: torch.Tensor
    output: Stack
    feed_norm: torch.Tensor
    gate_up: Stack
    down: Stack
    cosines: torch.Tensor
    sines: torch.Tensor

    @property
    def layers(self) -> int:
        """How many."""
        return len(self.attention_norm)

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.attention_norm.device


class Llama:
    """Grouped-query attention, rotary positions, RMSNorm, SwiGLU; biases and head norms where the family has them."""

    def __init__(
        self, config: LlamaConfig, embedding: Matrix, stages: Sequence[Stage], norm: torch.Tensor, head: Matrix
    ) -> None:
        """The embedding is on the first stage's device, `norm` and `head` on the last one's."""
        self.config = config
        self.stages = tuple(stages)
        self.device = stages[0].device
        self.dtype = norm.dtype
        self.head = head
        self._embedding = embedding
        self._norm = norm

    @property
    def bytes(self) -> int:
        """Memory of the weights."""
        tables = {one.data.data_ptr(): one.bytes for one in (self._embedding, self.head)}
        stacks = [stack for one in self.stages for stack in (one.qkv, one.output, one.gate_up, one.down)]
        return sum(tables.values()) + sum(stack.bytes for stack in stacks)

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """[rows] tokens -> [rows, hidden]."""
        return self._embedding.pick(tokens).to(self.dtype)

    def hidden(self, tokens: torch.Tensor, positions: torch.Tensor, attends: Sequence[Attention]) -> torch.Tensor:
        """[rows] tokens at [rows] positions -> [rows, hidden], before the last norm. One attention a stage."""
        state = self.embed(tokens)
        for stage, attend in zip(self.stages, attends, strict=True):
            state, positions = state.to(stage.device), positions.to(stage.device)
            cosines, sines = stage.cosines[positions], stage.sines[positions]
            for layer in range(stage.layers):
                state = state + self._attended(state, stage, layer, attend, cosines, sines)
                state = state + self._fed(state, stage, layer)
        return state

    def normed(self, hidden: torch.Tensor) -> torch.Tensor:
        """The last norm of [rows, hidden]."""
        return self._rms(hidden, self._norm)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[rows, hidden] -> [rows, vocabulary] in float32."""
        return self.head(self.normed(hidden)).float()

    def _attended(
        self,
        state: torch.Tensor,
        stage: Stage,
        layer: int,
        attend: Attention,
        cosines: torch.Tensor,
        sines: torch.Tensor,
    ) -> torch.Tensor:
        heads, kv_heads, width = self.config.heads, self.config.kv_heads, self.config.head_dim
        qkv = stage.qkv(layer, self._rms(state, stage.attention_norm[layer])).view(-1, heads + 2 * kv_heads, width)
        if len(stage.head_norms):
            queries, keys = stage.head_norms[layer]
            qkv[:, :heads] = self._rms(qkv[:, :heads], queries)
            qkv[:, heads : heads + kv_heads] = self._rms(qkv[:, heads : heads + kv_heads], keys)
        turned = heads + kv_heads
        qkv[:, :turned] = rope.rotate(qkv[:, :turned], cosines, sines)
        return stage.output(layer, attend(layer, qkv[:, :heads], qkv[:, heads:].view(-1, 2, kv_heads, width)))

    def _fed(self, state: torch.Tensor, stage: Stage, layer: int) -> torch.Tensor:
        gate, up = stage.gate_up(layer, self._rms(state, stage.feed_norm[layer])).chunk(2, dim=-1)
        return stage.down(layer, functional.silu(gate) * up)

    def _rms(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(rows, weight.shape, weight, self.config.norm_epsilon)
