"""From a model folder to an encoder on the device: every tensor exactly once, or a refusal that names it."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from backstay_runtime.model.bert import FAMILIES, Affine, Bert, BertConfig, BertLayer, Pooling, parse_config
from backstay_runtime.model.checkpoint import Checkpoint, read_json
from backstay_runtime.model.errors import ModelError

Shapes = dict[str, tuple[int, ...]]


def is_encoder(folder: Path) -> bool:
    """Whether the folder's config.json describes an encoder."""
    return (read_json(folder / "config.json").get("architectures") or [""])[0] in FAMILIES


@dataclass(frozen=True, slots=True)
class Pooled:
    """What sentence-transformers' files say beside the model."""

    pooling: Pooling
    normalise: bool
    max_length: int


def read_pooling(folder: Path, config: BertConfig) -> Pooled:
    """The pooling that modules.json and its neighbours ask for; the mean without them."""
    modules, sizes, pooling = (
        folder / name for name in ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json")
    )
    asked: dict[str, Any] = read_json(pooling) if pooling.exists() else {}
    chosen = [
        name.removeprefix("pooling_mode_") for name, on in asked.items() if name.startswith("pooling_mode_") and on
    ]
    names = {"mean_tokens": Pooling.MEAN, "cls_token": Pooling.CLS}
    if len(chosen) > 1 or any(name not in names for name in chosen):
        raise ModelError(
            f"1_Pooling/config.json: pooling {', '.join(chosen)} cannot be run; known are {', '.join(names)}"
        )
    longest = int((read_json(sizes) if sizes.exists() else {}).get("max_seq_length") or config.max_positions)
    return Pooled(
        names[chosen[0]] if chosen else Pooling.MEAN,
        modules.exists() and "models.Normalize" in modules.read_text(encoding="utf-8"),
        min(longest, config.max_positions),
    )


def load_bert(folder: Path, device: torch.device) -> Bert:
    """The folder's encoder in float32. Raises ModelError as `load_llama` does."""
    config = parse_config(read_json(folder / "config.json"))
    pooled = read_pooling(folder, config)
    with ExitStack() as stack:
        tensors = Checkpoint(folder, stack)
        prefix = "bert." if config.labels else ""
        tensors.account_for(_shapes(config, prefix), _unused(config, prefix))
        loading = _Loading(tensors, prefix, device)
        return Bert(
            config=config,
            words=loading.tensor("embeddings.word_embeddings.weight"),
            places=loading.tensor("embeddings.position_embeddings.weight")
            + loading.tensor("embeddings.token_type_embeddings.weight")[0],
            norm=loading.affine("embeddings.LayerNorm"),
            layers=[loading.layer(f"encoder.layer.{number}") for number in range(config.layers)],
            pooler=loading.affine("pooler.dense") if config.labels else None,
            classifier=loading.affine("classifier", bare=True) if config.labels else None,
            pooling=pooled.pooling,
            normalise=pooled.normalise,
        )


def _shapes(config: BertConfig, prefix: str) -> Shapes:
    hidden, inner = config.hidden, config.intermediate
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": (config.vocabulary, hidden),
        "embeddings.position_embeddings.weight": (config.max_positions, hidden),
        "embeddings.token_type_embeddings.weight": (config.types, hidden),
        **_affine("embeddings.LayerNorm", hidden),
    }
    for number in range(config.layers):
        layer = f"encoder.layer.{number}"
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes |= _affine(f"{layer}.{name}", hidden, hidden)
        shapes |= _affine(f"{layer}.attention.output.LayerNorm", hidden)
        shapes |= _affine(f"{layer}.intermediate.dense", inner, hidden)
        shapes |= _affine(f"{layer}.output.dense", hidden, inner)
        shapes |= _affine(f"{layer}.output.LayerNorm", hidden)
    if config.labels:
        shapes |= _affine("pooler.dense", hidden, hidden)
    named = {prefix + name: shape for name, shape in shapes.items()}
    return named | (_affine("classifier", len(config.labels), hidden) if config.labels else {})


def _affine(name: str, out: int, *width: int) -> Shapes:
    return {f"{name}.weight": (out, *width), f"{name}.bias": (out,)}


def _unused(config: BertConfig, prefix: str) -> frozenset[str]:
    """What checkpoints carry and no answer needs."""
    pooler = () if config.labels else ("pooler.dense.weight", "pooler.dense.bias")
    return frozenset(prefix + name for name in ("embeddings.position_ids", *pooler))


class _Loading:
    def __init__(self, tensors: Checkpoint, prefix: str, device: torch.device) -> None:
        self._tensors = tensors
        self._prefix = prefix
        self._device = device

    def tensor(self, name: str, *, bare: bool = False) -> torch.Tensor:
        full = name if bare else self._prefix + name
        return self._tensors.get(full, self._device).to(torch.float32, copy=True)

    def affine(self, *names: str, bare: bool = False) -> Affine:
        """Several of the same input are joined."""
        weights = [self.tensor(f"{name}.weight", bare=bare) for name in names]
        biases = [self.tensor(f"{name}.bias", bare=bare) for name in names]
        return Affine(torch.cat(weights), torch.cat(biases))

    def layer(self, prefix: str) -> BertLayer:
        return BertLayer(
            qkv=self.affine(*(f"{prefix}.attention.self.{part}" for part in ("query", "key", "value"))),
            output=self.affine(f"{prefix}.attention.output.dense"),
            attention_norm=self.affine(f"{prefix}.attention.output.LayerNorm"),
            up=self.affine(f"{prefix}.intermediate.dense"),
            down=self.affine(f"{prefix}.output.dense"),
            feed_norm=self.affine(f"{prefix}.output.LayerNorm"),
        )
