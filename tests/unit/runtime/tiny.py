"""A tiny Llama with random weights and a byte-level tokenizer, and the same decoder written a second time, slowly."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from backstay_runtime.text.tokenizer import _BYTE_OF_LETTER
from safetensors.torch import save_file

START, END = 256, 257
VOCABULARY = 258

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_hidden_layers": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "tie_word_embeddings": True,
    "vocab_size": VOCABULARY,
    "eos_token_id": END,
}

TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'nobody' %}{{ raise_exception('nobody may not speak') }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tensors(config: dict[str, Any] = CONFIG, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights, large enough that the next token depends on the whole past."""
    generator = torch.Generator().manual_seed(seed)
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).mul(2.0 / shape[-1] ** 0.5)

    found = {
        "model.embed_tokens.weight": torch.randn(config["vocab_size"], hidden, generator=generator),
        "model.norm.weight": 1 + 0.1 * torch.randn(hidden, generator=generator),
    }
    if not config["tie_word_embeddings"]:
        found["lm_head.weight"] = draw(config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        one = {
            "input_layernorm": 1 + 0.1 * torch.randn(hidden, generator=generator),
            "post_attention_layernorm": 1 + 0.1 * torch.randn(hidden, generator=generator),
            "self_attn.q_proj": draw(queries, hidden),
            "self_attn.k_proj": draw(keys, hidden),
            "self_attn.v_proj": draw(keys, hidden),
            "self_attn.o_proj": draw(hidden, queries),
            "mlp.gate_proj": draw(inner, hidden),
            "mlp.up_proj": draw(inner, hidden),
            "mlp.down_proj": draw(hidden, inner),
        }
        if config["architectures"] == ["Qwen3ForCausalLM"]:
            one |= {f"self_attn.{part}_norm": 1 + 0.3 * torch.randn(head, generator=generator) for part in "qk"}
        found |= {f"model.layers.{layer}.{name}.weight": weight for name, weight in one.items()}
        if config["architectures"] == ["Qwen2ForCausalLM"]:
            biases = {"q": queries, "k": keys, "v": keys}
            found |= {
                f"model.layers.{layer}.self_attn.{part}_proj.bias": torch.randn(size, generator=generator)
                for part, size in biases.items()
            }
    return found


def tokenizer() -> dict[str, Any]:
    """One token a byte, and two special ones."""
    letters = {byte: letter for letter, byte in _BYTE_OF_LETTER.items()}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    special = {START: "<|im_start|>", END: "<|im_end|>"}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": [{"id": id_, "content": text, **flags} for id_, text in special.items()],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {letters[byte]: byte for byte in range(256)} | {text: id_ for id_, text in special.items()},
            "merges": [],
        },
    }


def write(folder: Path, weights: dict[str, torch.Tensor] | None = None, config: dict[str, Any] = CONFIG) -> Path:
    """A model folder of some 100 kB."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors(config) if weights is None else weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def reference_logits(tokens: list[int], weights: dict[str, torch.Tensor], config: dict[str, Any] = CONFIG) -> Any:
    """[tokens, vocabulary] in float64: no cache, no batch, one head and one position after another."""
    named = {name: weight.double().numpy() for name, weight in weights.items()}
    heads, kv_heads, size = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    state = named["model.embed_tokens.weight"][tokens]
    for layer in range(config["num_hidden_layers"]):

        def weight(name: str, number: int = layer) -> Any:
            return named[f"model.layers.{number}.{name}.weight"]

        normed = _norm(state, weight("input_layernorm"), config)

        def projected(part: str, rows: slice, given: Any = normed, number: int = layer) -> Any:
            name = f"model.layers.{number}.self_attn.{part}"
            found = given @ named[f"{name}_proj.weight"][rows].T
            found = found + named[f"{name}_proj.bias"][rows] if f"{name}_proj.bias" in named else found
            return _norm(found, named[f"{name}_norm.weight"], config) if f"{name}_norm.weight" in named else found

        mixed = np.zeros((len(tokens), heads * size))
        for head in range(heads):
            rows = slice(head * size, (head + 1) * size)
            shared = head // (heads // kv_heads)
            shared_rows = slice(shared * size, (shared + 1) * size)
            queries = _rotated(projected("q", rows), config)
            keys = _rotated(projected("k", shared_rows), config)
            values = projected("v", shared_rows)
            for at in range(len(tokens)):
                scores = keys[: at + 1] @ queries[at] / size**0.5
                likely = np.exp(scores - scores.max())
                mixed[at, rows] = likely / likely.sum() @ values[: at + 1]
        state = state + mixed @ weight("self_attn.o_proj").T
        normed = _norm(state, weight("post_attention_layernorm"), config)
        gate = normed @ weight("mlp.gate_proj").T
        fed = gate / (1 + np.exp(-gate)) * (normed @ weight("mlp.up_proj").T)
        state = state + fed @ weight("mlp.down_proj").T
    head_weight = named.get("lm_head.weight", named["model.embed_tokens.weight"])
    return _norm(state, named["model.norm.weight"], config) @ head_weight.T


def _norm(rows: Any, weight: Any, config: dict[str, Any]) -> Any:
    return rows / np.sqrt((rows**2).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weight


def _rotated(rows: Any, config: dict[str, Any]) -> Any:
    """Each pair (i, i + half) is a number in the complex plane that turns with its position."""
    half = config["head_dim"] // 2
    turned = rows[:, :half] + 1j * rows[:, half:]
    frequencies = config["rope_theta"] ** (-np.arange(half) / half)
    turned = turned * np.exp(1j * np.arange(len(rows))[:, None] * frequencies[None, :])
    return np.concatenate((turned.real, turned.imag), axis=1)
