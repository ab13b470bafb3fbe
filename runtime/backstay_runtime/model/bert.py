"""BERT-shaped encoders: embeddings of texts, and classes of texts. Every text of a batch is padded to its longest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch.nn import functional

from backstay_runtime.model.dense import linear
from backstay_runtime.model.errors import ModelError

EMBEDS, CLASSIFIES = "BertModel", "BertForSequenceClassification"
FAMILIES = (EMBEDS, CLASSIFIES)


class Pooling(StrEnum):
    """How a text's tokens become one vector."""

    MEAN = "mean"
    CLS = "cls"


@dataclass(frozen=True, slots=True)
class BertConfig:
    """Shapes and constants of the encoder."""

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    max_positions: int
    types: int
    norm_epsilon: float
    tanh_gelu: bool
    labels: tuple[str, ...] = ()
    """Of the classes, in order; empty where texts become vectors."""
    several_labels: bool = False
    """Each class is asked for by itself (sigmoid), instead of one of all (softmax)."""
    pad: int = 0


def parse_config(config: Mapping[str, Any]) -> BertConfig:
    """The encoder that config.json describes. Raises ModelError for anything that would be computed wrongly."""
    architecture = (config.get("architectures") or ["missing"])[0]
    if architecture not in FAMILIES:
        raise ModelError(f"config.json: architectures {architecture!r} is no encoder of {', '.join(FAMILIES)}")
    for field, known in (("hidden_act", ("gelu", "gelu_new")), ("position_embedding_type", ("absolute",))):
        if config.get(field, known[0]) not in known:
            raise ModelError(f"config.json: {field} {config[field]!r} cannot be run; known are {', '.join(known)}")
    whole = {
        name: config.get(name)
        for name in (
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "max_position_embeddings",
        )
    }
    for name, value in whole.items():
        if not isinstance(value, int) or value < 1:
            raise ModelError(f"config.json: {name} is {value!r}, and must be a whole number of at least 1")
    if config["hidden_size"] % config["num_attention_heads"]:
        raise ModelError("config.json: hidden_size is no multiple of num_attention_heads")
    labels = config.get("id2label") or {}
    return BertConfig(
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        intermediate=config["intermediate_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        max_positions=config["max_position_embeddings"],
        types=config.get("type_vocab_size", 2),
        norm_epsilon=float(config.get("layer_norm_eps", 1e-12)),
        tanh_gelu=config.get("hidden_act") == "gelu_new",
        labels=tuple(labels[key] for key in sorted(labels, key=int)) if architecture == CLASSIFIES else (),
        several_labels=config.get("problem_type") == "multi_label_classification",
        pad=config.get("pad_token_id") or 0,
    )


@dataclass(frozen=True, slots=True)
class Affine:
    """A product and a bias."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        return linear(rows, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class BertLayer:
    """One block; norms come after the sums."""

    qkv: Affine
    output: Affine
    attention_norm: Affine
    up: Affine
    down: Affine
    feed_norm: Affine


@dataclass(frozen=True, slots=True)
class Bert:
    """`pooler` and `classifier`: of a classifier; else `pooling` and `normalise` say what becomes of the tokens."""

    config: BertConfig
    words: torch.Tensor
    places: torch.Tensor
    """[positions, hidden]: the embedding of each position and of the first token type."""
    norm: Affine
    layers: Sequence[BertLayer]
    pooler: Affine | None
    classifier: Affine | None
    pooling: Pooling = Pooling.MEAN
    normalise: bool = False

    def __call__(self, texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """[texts, hidden] vectors, or [texts, classes] scores. No text depends on another."""
        device = self.words.device
        width = max(len(text) for text in texts)
        ids = torch.full((len(texts), width), self.config.pad)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text)
        lengths = torch.tensor([len(text) for text in texts])[:, None]
        mask = (torch.arange(width)[None, :] < lengths).to(device)
        return self._pooled(self._encoded(ids.to(device), mask), mask)

    def _encoded(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        state = self._normed(functional.embedding(ids, self.words) + self.places[: ids.shape[1]], self.norm)
        seen = mask[:, None, None, :]
        gelu = "tanh" if self.config.tanh_gelu else "none"
        for layer in self.layers:
            state = self._normed(state + layer.output(self._attended(layer.qkv(state), seen)), layer.attention_norm)
            fed = layer.down(functional.gelu(layer.up(state), approximate=gelu))
            state = self._normed(state + fed, layer.feed_norm)
        return state

    def _attended(self, qkv: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        texts, width, _ = qkv.shape
        queries, keys, values = qkv.view(texts, width, 3, self.config.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)
        return mixed.transpose(1, 2).reshape(texts, width, self.config.hidden)

    def _pooled(self, state: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.classifier is not None and self.pooler is not None:
            scores = self.classifier(torch.tanh(self.pooler(state[:, 0]))).float()
            return scores.sigmoid() if self.config.several_labels else scores.softmax(dim=-1)
        if self.pooling is Pooling.CLS:
            vectors = state[:, 0]
        else:
            weights = mask[:, :, None].to(state.dtype)
            vectors = (state * weights).sum(dim=1) / weights.sum(dim=1)
        return functional.normalize(vectors.float(), dim=-1) if self.normalise else vectors.float()

    def _normed(self, state: torch.Tensor, norm: Affine) -> torch.Tensor:
        return functional.layer_norm(state, norm.bias.shape, norm.weight, norm.bias, self.config.norm_epsilon)
