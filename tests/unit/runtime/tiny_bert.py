"""A tiny encoder with random weights and a word tokenizer, and the same encoder written a second time, slowly."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "cat", "dog", "the", "is", "a", "day", "not"]
CONFIG: dict[str, Any] = {
    "architectures": ["BertModel"],
    "hidden_act": "gelu",
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
    "vocab_size": len(WORDS),
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
CLASSIFIER = {
    **CONFIG,
    "architectures": ["BertForSequenceClassification"],
    "id2label": {"0": "calm", "1": "angry", "2": "glad"},
}


def tensors(config: dict[str, Any] = CONFIG, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights under the checkpoint's names."""
    generator = torch.Generator().manual_seed(seed)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    found: dict[str, torch.Tensor] = {}

    def affine(name: str, out: int, *width: int) -> None:
        spread = width[0] ** -0.5 * 2 if width else 0.1
        found[f"{name}.weight"] = torch.randn(out, *width, generator=generator) * spread + (0 if width else 1)
        found[f"{name}.bias"] = torch.randn(out, generator=generator) * 0.1

    tables = {"word": len(WORDS), "position": config["max_position_embeddings"], "token_type": 2}
    for name, rows in tables.items():
        found[f"embeddings.{name}_embeddings.weight"] = torch.randn(rows, hidden, generator=generator)
    affine("embeddings.LayerNorm", hidden)
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            affine(f"{layer}.attention.{part}", hidden, hidden)
        affine(f"{layer}.attention.output.LayerNorm", hidden)
        affine(f"{layer}.intermediate.dense", inner, hidden)
        affine(f"{layer}.output.dense", hidden, inner)
        affine(f"{layer}.output.LayerNorm", hidden)
    affine("pooler.dense", hidden, hidden)
    if "id2label" not in config:
        return found
    found = {f"bert.{name}": tensor for name, tensor in found.items()}
    affine("classifier", len(config["id2label"]), hidden)
    return found


def tokenizer() -> dict[str, Any]:
    """One token a word, between [CLS] and [SEP]."""
    special = {"id": "[CLS]", "type_id": 0}, {"id": "[SEP]", "type_id": 0}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": special[0]},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": special[1]},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                word: {"id": word, "ids": [WORDS.index(word)], "tokens": [word]} for word in ("[CLS]", "[SEP]")
            },
        },
        "model": {
            "type": "WordLevel",
            "vocab": {word: place for place, word in enumerate(WORDS)},
            "unk_token": "[UNK]",
        },
    }


def write(
    folder: Path, config: dict[str, Any] = CONFIG, weights: dict[str, torch.Tensor] | None = None, *, unit: bool = True
) -> Path:
    """A model folder; `unit`: vectors of length 1."""
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    save_file(tensors(config) if weights is None else weights, folder / "model.safetensors")
    modules = [{"type": "sentence_transformers.models.Normalize"}] if unit else []
    files = {
        "config.json": config,
        "tokenizer.json": tokenizer(),
        "modules.json": modules,
        "1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
        "sentence_bert_config.json": {"max_seq_length": 16},
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value))
    return folder


def reference(ids: list[int], weights: dict[str, torch.Tensor], config: dict[str, Any] = CONFIG) -> Any:
    """[tokens, hidden] in float64: one text, one head and one position after another."""
    named = {name.removeprefix("bert."): tensor.double().numpy() for name, tensor in weights.items()}
    heads = config["num_attention_heads"]
    size = config["hidden_size"] // heads

    def affine(name: str, rows: Any) -> Any:
        return rows @ named[f"{name}.weight"].T + named[f"{name}.bias"]

    def norm(name: str, rows: Any) -> Any:
        centred = rows - rows.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + config["layer_norm_eps"])
        return scaled * named[f"{name}.weight"] + named[f"{name}.bias"]

    state = named["embeddings.word_embeddings.weight"][ids] + named["embeddings.token_type_embeddings.weight"][0]
    state = norm("embeddings.LayerNorm", state + named["embeddings.position_embeddings.weight"][: len(ids)])
    erf = np.vectorize(math.erf)
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        queries, keys, values = (affine(f"{layer}.attention.self.{one}", state) for one in ("query", "key", "value"))
        mixed = np.zeros_like(state)
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            for at in range(len(ids)):
                scores = keys[:, part] @ queries[at, part] / size**0.5
                likely = np.exp(scores - scores.max())
                mixed[at, part] = likely / likely.sum() @ values[:, part]
        state = norm(f"{layer}.attention.output.LayerNorm", state + affine(f"{layer}.attention.output.dense", mixed))
        inner = affine(f"{layer}.intermediate.dense", state)
        fed = affine(f"{layer}.output.dense", inner * 0.5 * (1 + erf(inner / 2**0.5)))
        state = norm(f"{layer}.output.LayerNorm", state + fed)
    return state


def reference_vector(ids: list[int], weights: dict[str, torch.Tensor]) -> Any:
    """The mean over the tokens, of length 1."""
    mean = reference(ids, weights).mean(0)
    return mean / np.sqrt((mean**2).sum())


def reference_classes(ids: list[int], weights: dict[str, torch.Tensor]) -> Any:
    """The probabilities of CLASSIFIER's classes."""
    named = {name: tensor.double().numpy() for name, tensor in weights.items()}
    first = reference(ids, weights, CLASSIFIER)[0]
    pooled = np.tanh(first @ named["bert.pooler.dense.weight"].T + named["bert.pooler.dense.bias"])
    scores = pooled @ named["classifier.weight"].T + named["classifier.bias"]
    likely = np.exp(scores - scores.max())
    return likely / likely.sum()
