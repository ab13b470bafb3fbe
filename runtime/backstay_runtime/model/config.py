"""What config.json says about a Llama-shaped decoder. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backstay_runtime.model.errors import ModelError

LLAMA, QWEN2, QWEN3 = "LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"
FAMILIES = (LLAMA, QWEN2, QWEN3)


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How the rotary frequencies are stretched for contexts longer than those trained on."""

    kind: str
    """`linear` or `llama3`."""
    factor: float
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    trained_positions: int = 8192


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Shapes and constants of the decoder. `heads` is a multiple of `kv_heads` (grouped-query attention)."""

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    max_positions: int
    norm_epsilon: float
    rope_theta: float
    rope_scaling: RopeScaling | None
    tied: bool
    """The output head is the embedding."""
    eos: frozenset[int]
    """Tokens that end a text."""
    qkv_bias: bool = False
    """Queries, keys and values have biases (Qwen2)."""
    head_norms: bool = False
    """Each head's queries and keys are normed (Qwen3)."""

    def kv_bytes_per_token(self, number_bytes: int) -> int:
        """Bytes of keys and values that one token occupies over all layers, each number taking so many."""
        return self.layers * 2 * self.kv_heads * self.head_dim * number_bytes


def parse_config(config: Mapping[str, Any], generation: Mapping[str, Any]) -> LlamaConfig:
    """The decoder that config.json and generation_config.json describe.

    Raises ModelError for anything that this decoder would compute wrongly.
    """
    _refuse_unknown(config)
    hidden = _positive(config, "hidden_size")
    heads = _positive(config, "num_attention_heads")
    kv_heads = _positive(config, "num_key_value_heads", heads)
    if heads % kv_heads:
        raise ModelError(f"config.json: num_attention_heads {heads} is no multiple of num_key_value_heads {kv_heads}")
    head_dim = _positive(config, "head_dim", hidden // heads)
    if head_dim % 2:
        raise ModelError(f"config.json: head_dim {head_dim} is odd, and rotary embeddings need pairs")
    rope = config.get("rope_parameters") or {}
    return LlamaConfig(
        vocabulary=_positive(config, "vocab_size"),
        hidden=hidden,
        intermediate=_positive(config, "intermediate_size"),
        layers=_positive(config, "num_hidden_layers"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        max_positions=_positive(config, "max_position_embeddings"),
        norm_epsilon=float(config.get("rms_norm_eps", 1e-6)),
        rope_theta=float(config.get("rope_theta", rope.get("rope_theta", 10000.0))),
        rope_scaling=_scaling(config.get("rope_scaling") or rope),
        tied=bool(config.get("tie_word_embeddings", False)),
        eos=_eos(config, generation),
        qkv_bias=_family(config) == QWEN2,
        head_norms=_family(config) == QWEN3,
    )


def _family(config: Mapping[str, Any]) -> str:
    architectures: list[str] = config.get("architectures") or ["missing"]
    if architectures[0] not in FAMILIES:
        raise ModelError(
            f"config.json: architectures {architectures} cannot be run; as a decoder, this runtime runs "
            f"{', '.join(FAMILIES)}"
        )
    return architectures[0]


def _refuse_unknown(config: Mapping[str, Any]) -> None:
    _family(config)
    if config.get("use_sliding_window"):
        raise ModelError("config.json: use_sliding_window is true, and only attention to the whole past can be run")
    if config.get("hidden_act", "silu") != "silu":
        raise ModelError(f"config.json: hidden_act {config['hidden_act']!r} cannot be run; only 'silu' can")
    for field in ("attention_bias", "mlp_bias"):
        if config.get(field):
            raise ModelError(f"config.json: {field} is true, and such biases cannot be run")


def _positive(config: Mapping[str, Any], field: str, default: int | None = None) -> int:
    value = config.get(field)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelError(f"config.json: {field} is {value!r}, and must be a whole number of at least 1")
    return value


def _scaling(rope: Mapping[str, Any]) -> RopeScaling | None:
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None
    if kind == "linear":
        return RopeScaling(kind="linear", factor=float(rope["factor"]))
    if kind == "llama3":
        return RopeScaling(
            kind="llama3",
            factor=float(rope["factor"]),
            low_frequency_factor=float(rope["low_freq_factor"]),
            high_frequency_factor=float(rope["high_freq_factor"]),
            trained_positions=int(rope["original_max_position_embeddings"]),
        )
    raise ModelError(f"config.json: rope type {kind!r} cannot be run; known are default, linear and llama3")


def _eos(config: Mapping[str, Any], generation: Mapping[str, Any]) -> frozenset[int]:
    value = generation.get("eos_token_id", config.get("eos_token_id"))
    if value is None:
        return frozenset()
    return frozenset(value if isinstance(value, list) else [value])
