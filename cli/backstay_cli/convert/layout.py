"""Names and row order: from llama.cpp's layout of a Llama model to that of safetensors checkpoints. Pure."""

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from backstay_cli.convert.errors import ConvertError

Floats = npt.NDArray[np.float32]

_TOP: Mapping[str, str] = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_LAYER: Mapping[str, str] = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.weight")


def checkpoint_name(gguf_name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`; refuses a name it does not know."""
    if gguf_name in _TOP:
        return _TOP[gguf_name]
    match = _LAYER.fullmatch(gguf_name)
    if match is None or match[2] not in _IN_LAYER:
        raise ConvertError(f"tensor {gguf_name!r} is not part of a Llama model: convert a Llama-family GGUF")
    return f"model.layers.{match[1]}.{_IN_LAYER[match[2]]}.weight"


def rotary_heads(name: str, heads: int, kv_heads: int) -> int | None:
    """The number of heads whose rows are interleaved in the tensor `name` of a checkpoint, or None if none are."""
    if name.endswith("self_attn.q_proj.weight"):
        return heads
    if name.endswith("self_attn.k_proj.weight"):
        return kv_heads
    return None


def split_rotary_halves(weight: Floats, heads: int) -> Floats:
    """[rows, cols] with the two rotary halves of each head interleaved -> the same rows with the halves apart.

    llama.cpp rotates neighbouring pairs (0,1), (2,3) …; checkpoints rotate (i, i + head_dim / 2).
    """
    rows, cols = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)
