"""The decoder's forward pass over a flat batch of rows, each row one token of some sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional

from backstay_runtime.model import rope
from backstay_runtime.model.config import LlamaConfig
from backstay_runtime.model.linear import Linear


class Attention(Protocol):
    """Stores the rows' keys and values and attends each row to its own sequence's past."""

    def __call__(self, layer: int, queries: torch.Tensor, keys_values: torch.Tensor) -> torch.Tensor:
        """[rows, heads, head_dim] and [rows, 2, kv_heads, head_dim] -> [rows, heads × head_dim]."""
        ...


@dataclass(frozen=True, slots=True)
class Layer:
    """One block. `qkv` joins the query, key and value projections, `gate_up` the two halves of SwiGLU."""

    attention_norm: torch.Tensor
    qkv: Linear
    output: Linear
    feed_norm: torch.Tensor
    gate_up: Linear
    down: Linear


class Llama:
    """Grouped-query attention, rotary positions, RMSNorm, SwiGLU; no biases."""

    def __init__(
        self,
        config: LlamaConfig,
        embedding: torch.Tensor,
        layers: Sequence[Layer],
        norm: torch.Tensor,
        head: Linear,
        positions: int,
    ) -> None:
        """`positions`: the longest sequence that will be asked for."""
        self.config = config
        self.device = norm.device
        self.dtype = norm.dtype
        self._embedding = embedding
        self._layers = layers
        self._norm = norm
        self._head = head
        cosines, sines = rope.rope_tables(config, positions, norm.device)
        self._cosines, self._sines = cosines.to(norm.dtype), sines.to(norm.dtype)

    def hidden(self, tokens: torch.Tensor, positions: torch.Tensor, attend: Attention) -> torch.Tensor:
        """[rows] tokens at [rows] positions -> [rows, hidden], before the last norm."""
        config = self.config
        rotated = config.heads + config.kv_heads
        joined = config.heads + 2 * config.kv_heads
        cosines, sines = self._cosines[positions], self._sines[positions]
        state = functional.embedding(tokens, self._embedding)
        for number, layer in enumerate(self._layers):
            qkv = layer.qkv(self._normed(state, layer.attention_norm)).view(-1, joined, config.head_dim)
            qkv[:, :rotated] = rope.rotate(qkv[:, :rotated], cosines, sines)
            keys_values = qkv[:, config.heads :].view(-1, 2, config.kv_heads, config.head_dim)
            state = state + layer.output(attend(number, qkv[:, : config.heads], keys_values))
            gate, up = layer.gate_up(self._normed(state, layer.feed_norm)).chunk(2, dim=-1)
            state = state + layer.down(functional.silu(gate) * up)
        return state

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[rows, hidden] -> [rows, vocabulary] in float32."""
        return self._head(self._normed(hidden, self._norm)).float()

    def _normed(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(rows, weight.shape, weight, self.config.norm_epsilon)
