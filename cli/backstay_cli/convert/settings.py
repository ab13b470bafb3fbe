"""The JSON files beside the weights, from a GGUF's metadata. Pure: metadata in, texts out."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from backstay_cli.convert.errors import ConvertError

Metadata = Mapping[str, Any]

INSTEAD = "get the model as a folder in Hugging Face's form, with safetensors, and push that"
CONTROL_TOKEN = 3  # tokenizer.ggml.token_type of tokens that stand for no text
_SPACE = {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}

# tokenizer.ggml.pre -> what cuts the text before the byte pairs are merged. Only splits that were compared with
# llama.cpp's own stand here: a wrong split gives other token ids and no error.
_PRE_TOKENIZERS: Mapping[str, list[dict[str, Any]]] = {
    "smollm": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", **_SPACE},
    ],
}


def need(metadata: Metadata, key: str) -> Any:
    """The value of `key`, or a refusal that names it."""
    if key not in metadata:
        raise ConvertError(f"the GGUF has no {key}: it is no complete Llama model")
    return metadata[key]


def _widened(value: float) -> float:
    """A float32 as the shortest decimal that means it: 9.999999747e-06 -> 1e-05."""
    return float(str(np.float32(value)))


def model_config(metadata: Metadata, tied: bool) -> dict[str, Any]:
    """config.json; `tied`: the output head is the embedding."""
    architecture = need(metadata, "general.architecture")
    if architecture != "llama":
        raise ConvertError(f"general.architecture is {architecture!r}: only 'llama' can be converted; {INSTEAD}")
    hidden = need(metadata, "llama.embedding_length")
    heads = need(metadata, "llama.attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": need(metadata, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": need(metadata, "tokenizer.ggml.eos_token_id"),
        "head_dim": metadata.get("llama.rope.dimension_count", hidden // heads),
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": need(metadata, "llama.feed_forward_length"),
        "max_position_embeddings": need(metadata, "llama.context_length"),
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": need(metadata, "llama.block_count"),
        "num_key_value_heads": metadata.get("llama.attention.head_count_kv", heads),
        "pad_token_id": _pad(metadata),
        "rms_norm_eps": _widened(need(metadata, "llama.attention.layer_norm_rms_epsilon")),
        "rope_scaling": None,
        "rope_theta": _widened(metadata.get("llama.rope.freq_base", 10000.0)),
        "tie_word_embeddings": tied,
        "torch_dtype": "float32",
        "use_cache": True,
        "vocab_size": len(need(metadata, "tokenizer.ggml.tokens")),
    }


def _pad(metadata: Metadata) -> int:
    eos: int = need(metadata, "tokenizer.ggml.eos_token_id")
    pad: int = metadata.get("tokenizer.ggml.padding_token_id", eos)
    return pad


def generation_config(metadata: Metadata) -> dict[str, Any]:
    """generation_config.json: the special tokens that generation must know."""
    return {
        "bos_token_id": need(metadata, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": need(metadata, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": _pad(metadata),
    }


def tokenizer(metadata: Metadata) -> dict[str, Any]:
    """tokenizer.json: byte-level byte-pair encoding; special tokens in a text are parsed to their ids."""
    kind, pre = need(metadata, "tokenizer.ggml.model"), need(metadata, "tokenizer.ggml.pre")
    if kind != "gpt2" or pre not in _PRE_TOKENIZERS:
        known = ", ".join(_PRE_TOKENIZERS)
        raise ConvertError(
            f"tokenizer.ggml.model {kind!r} with pre {pre!r} cannot be converted (known: gpt2 with {known}); {INSTEAD}"
        )
    tokens: list[str] = need(metadata, "tokenizer.ggml.tokens")
    types: list[int] = need(metadata, "tokenizer.ggml.token_type")
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [
        {"id": index, "content": token, **flags}
        for index, (token, type_) in enumerate(zip(tokens, types, strict=True))
        if type_ == CONTROL_TOKEN
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _PRE_TOKENIZERS[pre]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": need(metadata, "tokenizer.ggml.merges"),
        },
    }


def tokenizer_config(metadata: Metadata) -> dict[str, Any]:
    """tokenizer_config.json: what is added to a prompt, and the names of the special tokens."""
    tokens: list[str] = need(metadata, "tokenizer.ggml.tokens")
    return {
        "add_bos_token": metadata.get("tokenizer.ggml.add_bos_token", False),
        "add_eos_token": metadata.get("tokenizer.ggml.add_eos_token", False),
        "add_prefix_space": metadata.get("tokenizer.ggml.add_space_prefix", False),
        "bos_token": tokens[need(metadata, "tokenizer.ggml.bos_token_id")],
        "chat_template": chat_template(metadata),
        "clean_up_tokenization_spaces": False,
        "eos_token": tokens[need(metadata, "tokenizer.ggml.eos_token_id")],
        "model_max_length": need(metadata, "llama.context_length"),
        "pad_token": tokens[_pad(metadata)],
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": tokens[metadata.get("tokenizer.ggml.unknown_token_id", 0)],
    }


def chat_template(metadata: Metadata) -> str:
    """chat_template.jinja as it is, without a final line break."""
    template: str = need(metadata, "tokenizer.chat_template")
    return template


def as_text(value: Mapping[str, Any]) -> str:
    """The one way in which the files are written, so that their SHA-256 can be compared."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
