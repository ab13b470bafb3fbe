import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from backstay_cli.convert import ConvertError, convert_gguf
from backstay_cli.convert.layout import checkpoint_name, rotary_heads, split_rotary_halves
from backstay_runtime.model.load import read_config
from backstay_runtime.text.template import load_template
from backstay_runtime.text.tokenizer import Tokenizer
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

HEADS, KV_HEADS, SIZE, HIDDEN, INNER = 4, 2, 16, 64, 96


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**31))
def test_the_rows_of_a_head_come_apart_into_its_halves(heads: int, half: int, cols: int, seed: int) -> None:
    """llama.cpp interleaves them; doing so again must give back the start."""
    weight = np.random.default_rng(seed).standard_normal((heads * half * 2, cols), dtype=np.float32)
    interleaved = weight.reshape(heads, 2, half, cols).swapaxes(1, 2).reshape(weight.shape)
    assert np.array_equal(split_rotary_halves(interleaved, heads), weight)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("output.weight", "lm_head.weight"),
        ("blk.12.attn_q.weight", "model.layers.12.self_attn.q_proj.weight"),
        ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
    ],
)
def test_each_tensor_has_its_name(found: str, wanted: str) -> None:
    assert checkpoint_name(found) == wanted


@pytest.mark.parametrize(
    "name", ["blk.0.attn_q.bias", "blk.0.ffn_gate_inp.weight", "rope_freqs.weight", "blk.x.attn_q.weight"]
)
def test_a_tensor_of_another_family_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConvertError, match=name):
        checkpoint_name(name)


def test_only_queries_and_keys_are_interleaved() -> None:
    assert rotary_heads("model.layers.0.self_attn.q_proj.weight", 9, 3) == 9
    assert rotary_heads("model.layers.0.self_attn.k_proj.weight", 9, 3) == 3
    assert rotary_heads("model.layers.0.self_attn.v_proj.weight", 9, 3) is None


def gguf_tensors(seed: int = 0) -> dict[str, Any]:
    """One layer, in llama.cpp's own names."""
    generator = np.random.default_rng(seed)

    def draw(*shape: int) -> Any:
        return generator.standard_normal(shape, dtype=np.float32)

    return {
        "token_embd.weight": draw(260, HIDDEN),
        "output_norm.weight": draw(HIDDEN),
        "blk.0.attn_norm.weight": draw(HIDDEN),
        "blk.0.ffn_norm.weight": draw(HIDDEN),
        "blk.0.attn_q.weight": draw(HEADS * SIZE, HIDDEN),
        "blk.0.attn_k.weight": draw(KV_HEADS * SIZE, HIDDEN),
        "blk.0.attn_v.weight": draw(KV_HEADS * SIZE, HIDDEN),
        "blk.0.attn_output.weight": draw(HIDDEN, HEADS * SIZE),
        "blk.0.ffn_gate.weight": draw(INNER, HIDDEN),
        "blk.0.ffn_up.weight": draw(INNER, HIDDEN),
        "blk.0.ffn_down.weight": draw(HIDDEN, INNER),
    }


def write_gguf(path: Path, tensors: dict[str, Any], *, architecture: str = "llama", pre: str = "smollm") -> Path:
    """A GGUF file as llama.cpp's tools write it; matrices of the feed-forward part are Q8_0."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(SIZE)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(["<|end|>", "a", "b", "ab", *(f"t{number}" for number in range(256))])
    writer.add_token_types([3] + [1] * 259)
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    for name, tensor in tensors.items():
        kind = gguf.GGMLQuantizationType.Q8_0 if "ffn_up" in name else None
        data = tensor if kind is None else gguf.quants.quantize(tensor, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def silent(_name: str, _done: int, _total: int) -> None:
    """Shows nothing."""


def test_a_converted_model_has_the_weights_in_the_runtimes_layout(tmp_path: Path) -> None:
    tensors = gguf_tensors()
    convert_gguf(write_gguf(tmp_path / "a.gguf", tensors), tmp_path / "out", silent)
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert found.keys() == {checkpoint_name(name) for name in tensors}
    assert np.array_equal(found["model.layers.0.mlp.down_proj.weight"], tensors["blk.0.ffn_down.weight"])
    queries = found["model.layers.0.self_attn.q_proj.weight"]
    assert np.array_equal(queries, split_rotary_halves(tensors["blk.0.attn_q.weight"], HEADS))
    up = found["model.layers.0.mlp.up_proj.weight"]
    assert 0 < np.abs(up - tensors["blk.0.ffn_up.weight"]).max() < 0.05


def test_the_runtime_reads_what_the_converter_writes(tmp_path: Path) -> None:
    convert_gguf(write_gguf(tmp_path / "a.gguf", gguf_tensors()), tmp_path / "out", silent)
    config = read_config(tmp_path / "out")
    assert (config.heads, config.kv_heads, config.head_dim, config.tied) == (HEADS, KV_HEADS, SIZE, True)
    assert config.norm_epsilon == 1e-5
    assert config.eos == {0}
    assert Tokenizer(tmp_path / "out").encode("ab<|end|>") == [3, 0]
    template = load_template(tmp_path / "out")
    assert template is not None
    assert template.render([{"role": "user", "content": "Hi"}]) == "Hi"


def test_converting_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    source = write_gguf(tmp_path / "a.gguf", gguf_tensors())
    for name in ("one", "two"):
        convert_gguf(source, tmp_path / name, silent)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_progress_ends_with_all_bytes(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    source = write_gguf(tmp_path / "a.gguf", gguf_tensors())
    convert_gguf(source, tmp_path / "out", lambda _name, done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1][0] == seen[-1][1] > 0


def test_a_head_of_its_own_is_kept(tmp_path: Path) -> None:
    tensors = gguf_tensors() | {"output.weight": np.ones((260, HIDDEN), dtype=np.float32)}
    convert_gguf(write_gguf(tmp_path / "a.gguf", tensors), tmp_path / "out", silent)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["tie_word_embeddings"] is False


def test_an_existing_folder_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(ConvertError, match="exists"):
        convert_gguf(write_gguf(tmp_path / "a.gguf", gguf_tensors()), tmp_path / "out", silent)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"architecture": "qwen2"}, "general.architecture is 'qwen2'|has no llama"), ({"pre": "llama-bpe"}, "llama-bpe")],
)
def test_what_would_be_converted_wrongly_is_refused_and_leaves_nothing(
    tmp_path: Path, changed: dict[str, str], said: str
) -> None:
    source = write_gguf(tmp_path / "a.gguf", gguf_tensors(), **changed)
    with pytest.raises(ConvertError, match=said):
        convert_gguf(source, tmp_path / "out", silent)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_a_file_that_is_no_gguf_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"not a model" * 10)
    with pytest.raises(ConvertError, match=r"a\.gguf cannot be read as GGUF"):
        convert_gguf(tmp_path / "a.gguf", tmp_path / "out", silent)
