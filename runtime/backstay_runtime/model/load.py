"""From a model folder to a decoder on the device: every tensor exactly once, or a refusal that names it."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path

import torch

from backstay_runtime.model import rope
from backstay_runtime.model.checkpoint import Checkpoint, named, read_json
from backstay_runtime.model.config import LlamaConfig, parse_config
from backstay_runtime.model.held import Matrix
from backstay_runtime.model.linear import Dtype, Quantization, computed_in, held_as, table_held_as
from backstay_runtime.model.llama import Llama, Stage
from backstay_runtime.model.placement import Needs
from backstay_runtime.model.stack import Stack


def read_config(folder: Path) -> LlamaConfig:
    """The decoder that the folder's JSON files describe."""
    generation = folder / "generation_config.json"
    return parse_config(read_json(folder / "config.json"), read_json(generation) if generation.exists() else {})


def load_llama(
    folder: Path,
    *,
    dtype: Dtype,
    device: torch.device,
    positions: int,
    quantization: Quantization = Quantization.NONE,
    spans: Sequence[tuple[torch.device, range]] | None = None,
) -> Llama:
    """The folder's decoder. Weights are read straight to their device, one layer at a time.

    `spans`: devices and the layers on each, instead of all on `device`. `positions`: the longest sequence that will
    be asked for. Raises ModelError naming the tensors that are missing, left over or of another shape than
    config.json says.
    """
    config = read_config(folder)
    spans = spans or [(device, range(config.layers))]
    with ExitStack() as stack:
        tensors = Checkpoint(folder, stack)
        shapes = _shapes(config)
        tensors.account_for(shapes)
        decoder = _Loading(config, tensors, shapes, dtype, quantization).decoder(spans, positions)
        tensors.finish()
        return decoder


def weight_needs(folder: Path, dtype: Dtype, quantization: Quantization, device: torch.device) -> Needs:
    """Memory that each part of the folder's decoder will take on such devices, from config.json alone."""
    config = read_config(folder)
    held, table = held_as(dtype, quantization, device), table_held_as(dtype, quantization, device)
    each = 0
    for name, shape in _shapes(config).items():
        if name.startswith("model.layers.0."):
            each += held.bytes_of(*shape) if len(shape) == 2 else 4 * shape[0]
    embedding = table.bytes_of(config.vocabulary, config.hidden)
    return Needs(embedding, (each,) * config.layers, 0 if config.tied else embedding)


def _shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor that the decoder has, with its shape [out, in]."""
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config.vocabulary, config.hidden),
        "model.norm.weight": (config.hidden,),
    }
    if not config.tied:
        shapes["lm_head.weight"] = (config.vocabulary, config.hidden)
    for number in range(config.layers):
        layer = {
            "input_layernorm": (config.hidden,),
            "post_attention_layernorm": (config.hidden,),
            "self_attn.q_proj": (queries, config.hidden),
            "self_attn.k_proj": (keys, config.hidden),
            "self_attn.v_proj": (keys, config.hidden),
            "self_attn.o_proj": (config.hidden, queries),
            "mlp.gate_proj": (config.intermediate, config.hidden),
            "mlp.up_proj": (config.intermediate, config.hidden),
            "mlp.down_proj": (config.hidden, config.intermediate),
        }
        if config.head_norms:
            layer |= {"self_attn.q_norm": (config.head_dim,), "self_attn.k_norm": (config.head_dim,)}
        shapes |= {f"model.layers.{number}.{name}.weight": shape for name, shape in layer.items()}
        if config.qkv_bias:
            biases = {"q": queries, "k": keys, "v": keys}
            shapes |= {f"model.layers.{number}.self_attn.{part}_proj.bias": (size,) for part, size in biases.items()}
    return shapes


class _Loading:
    """From tensors to a decoder."""

    def __init__(
        self,
        config: LlamaConfig,
        tensors: Checkpoint,
        shapes: Mapping[str, tuple[int, ...]],
        dtype: Dtype,
        quantization: Quantization,
    ) -> None:
        self._config = config
        self._tensors = tensors
        self._shapes = shapes
        self._dtype = dtype
        self._quantization = quantization

    def decoder(self, spans: Sequence[tuple[torch.device, range]], positions: int) -> Llama:
        config, first, last = self._config, spans[0][0], spans[-1][0]
        embedding = self._table("model.embed_tokens", first)
        shared = config.tied and first == last
        head = embedding if shared else self._table("model.embed_tokens" if config.tied else "lm_head", last)
        stages = [self._stage(device, layers, positions) for device, layers in spans if layers]
        return Llama(config, embedding, stages, self._vector("model.norm.weight", last), head)

    def _table(self, name: str, device: torch.device) -> Matrix:
        held = table_held_as(self._dtype, self._quantization, device)
        with named(name, held):
            matrix = Matrix.empty(held, self._config.vocabulary, self._config.hidden, device)
        self._tensors.hold(f"{name}.weight", matrix)
        return matrix

    def _vector(self, name: str, device: torch.device) -> torch.Tensor:
        return self._tensors.get(name, device).to(computed_in(self._dtype, device), copy=True)

    def _stage(self, device: torch.device, layers: range, positions: int) -> Stage:
        config = self._config
        qkv = self._stack(layers, [f"self_attn.{part}_proj" for part in "qkv"], device, bias=config.qkv_bias)
        output = self._stack(layers, ["self_attn.o_proj"], device)
        gate_up = self._stack(layers, ["mlp.gate_proj", "mlp.up_proj"], device)
        down = self._stack(layers, ["mlp.down_proj"], device)
        cosines, sines = rope.rope_tables(config, positions, device)
        attention_norm = self._vectors(layers, "input_layernorm.weight", device)
        return Stage(
            attention_norm=attention_norm,
            qkv=qkv,
            head_norms=self._head_norms(layers, device),
            output=output,
            feed_norm=self._vectors(layers, "post_attention_layernorm.weight", device),
            gate_up=gate_up,
            down=down,
            cosines=cosines.to(attention_norm.dtype),
            sines=sines.to(attention_norm.dtype),
        )

    def _stack(self, layers: range, parts: list[str], device: torch.device, *, bias: bool = False) -> Stack:
        """Of each layer these projections, one below the other."""
        held = held_as(self._dtype, self._quantization, device)
        rows = [self._shapes[f"model.layers.{layers[0]}.{part}.weight"][0] for part in parts]
        columns = self._shapes[f"model.layers.{layers[0]}.{parts[0]}.weight"][1]
        with named(parts[0], held):
            stack = Stack(held, len(layers), (sum(rows), columns), device, bias=bias)
        for place, number in enumerate(layers):
            ends = list(accumulate(rows))
            for part, start, end in zip(parts, [0, *ends], ends, strict=False):
                name = f"model.layers.{number}.{part}"
                self._tensors.hold(f"{name}.weight", stack[place][start:end])
                if bias:
                    stack.bias[place, start:end].copy_(self._tensors.get(f"{name}.bias", device))
        return stack

    def _vectors(self, layers: range, name: str, device: torch.device) -> torch.Tensor:
        """[layers, …] of a tensor that each layer has."""
        return torch.stack([self._vector(f"model.layers.{number}.{name}", device) for number in layers])

    def _head_norms(self, layers: range, device: torch.device) -> torch.Tensor:
        if not self._config.head_norms:
            return torch.zeros(0, 2, self._config.head_dim, device=device)
        both = [self._vectors(layers, f"self_attn.{part}_norm.weight", device) for part in "qk"]
        return torch.stack(both, dim=1)
