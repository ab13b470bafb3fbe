"""From a model folder to a decoder on the device: every tensor exactly once, or a refusal that names it."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from backstay_runtime.model.config import LlamaConfig, parse_config
from backstay_runtime.model.errors import ModelError
from backstay_runtime.model.linear import Dtype, Linear, Pack, packer
from backstay_runtime.model.llama import Layer, Llama

_KINDS = ("F32", "F16", "BF16")
_SHOWN = 5  # tensors named in a refusal


def read_config(folder: Path) -> LlamaConfig:
    """The decoder that the folder's JSON files describe."""
    generation = folder / "generation_config.json"
    return parse_config(_json(folder / "config.json"), _json(generation) if generation.exists() else {})


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as why:
        raise ModelError(f"{path.name} cannot be read: {why}") from why
    if not isinstance(value, dict):
        raise ModelError(f"{path.name} holds a {type(value).__name__}, not an object")
    return value


def load_llama(folder: Path, *, dtype: Dtype, device: torch.device, positions: int) -> Llama:
    """The folder's decoder. Weights are read straight to the device, one layer at a time.

    Raises ModelError naming the tensors that are missing, left over or of another shape than config.json says.
    """
    config = read_config(folder)
    with ExitStack() as stack:
        tensors = Checkpoint(folder, device, stack)
        tensors.account_for(_shapes(config))
        half = device.type != "cpu" and dtype is not Dtype.FLOAT32
        kept = torch.float16 if half else torch.float32
        return _assemble(config, tensors, pack=packer(dtype, device), kept=kept, positions=positions)


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
        shapes |= {f"model.layers.{number}.{name}.weight": shape for name, shape in layer.items()}
    return shapes


class Checkpoint:
    """The tensors of a folder's safetensors files, memory-mapped."""

    def __init__(self, folder: Path, device: torch.device, stack: ExitStack) -> None:
        self._where: dict[str, Any] = {}
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise ModelError(f"{folder.name} holds no *.safetensors file")
        for path in files:
            try:
                file = stack.enter_context(safe_open(path, framework="pt", device=str(device)))
            except (SafetensorError, OSError) as why:
                raise ModelError(f"{path.name} is no safetensors file: {why}") from why
            for name in file.keys():  # noqa: SIM118 - not a mapping
                if name in self._where:
                    raise ModelError(f"tensor {name!r} occurs in two files, the second is {path.name}")
                self._where[name] = file

    def account_for(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Refuses unless the files hold exactly these tensors in exactly these shapes."""
        missing = sorted(shapes.keys() - self._where.keys())
        extra = sorted(self._where.keys() - shapes.keys())
        wrong = []
        for name in sorted(shapes.keys() & self._where.keys()):
            tensor = self._where[name].get_slice(name)
            found, kind = tuple(tensor.get_shape()), tensor.get_dtype()
            if found != shapes[name]:
                wrong.append(f"{name} {list(found)} instead of {list(shapes[name])}")
            if kind not in _KINDS:
                raise ModelError(f"tensor {name!r} has type {kind}; weights are {', '.join(_KINDS)}")
        said = [
            _list(word, names)
            for word, names in (("missing", missing), ("extra", extra), ("mis-shaped", wrong))
            if names
        ]
        if said:
            raise ModelError("the weights do not fit config.json: " + "; ".join(said))

    def get(self, name: str) -> torch.Tensor:
        """The tensor as it lies in its file, on the device."""
        tensor: torch.Tensor = self._where[name].get_tensor(name)
        return tensor


def _list(word: str, names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{word}: {', '.join(names[:_SHOWN])}{more}"


def _assemble(config: LlamaConfig, tensors: Checkpoint, *, pack: Pack, kept: torch.dtype, positions: int) -> Llama:
    def tensor(name: str) -> torch.Tensor:
        return tensors.get(f"{name}.weight").to(kept)

    def owned(name: str) -> torch.Tensor:
        # A copy: one view of a file would keep all of it mapped after the weights are packed.
        return tensor(name).clone()

    def joined(*names: str) -> Linear:
        parts = [tensor(name) for name in names]
        return pack(parts[0] if len(parts) == 1 else torch.cat(parts))

    embedding = owned("model.embed_tokens")
    head = pack(embedding) if config.tied else joined("lm_head")
    layers = [_layer(f"model.layers.{number}", owned, joined) for number in range(config.layers)]
    return Llama(config, embedding, layers, owned("model.norm"), head, positions)


def _layer(prefix: str, owned: Callable[[str], torch.Tensor], joined: Callable[..., Linear]) -> Layer:
    return Layer(
        attention_norm=owned(f"{prefix}.input_layernorm"),
        qkv=joined(*(f"{prefix}.self_attn.{part}_proj" for part in "qkv")),
        output=joined(f"{prefix}.self_attn.o_proj"),
        feed_norm=owned(f"{prefix}.post_attention_layernorm"),
        gate_up=joined(f"{prefix}.mlp.gate_proj", f"{prefix}.mlp.up_proj"),
        down=joined(f"{prefix}.mlp.down_proj"),
    )
