"""The versions that the demo makes of a model: lighter without a loss, deeper without another answer."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.e2e.story import models, variants

NAMES = ["model.embed_tokens.weight", "model.norm.weight"] + [
    f"model.layers.{layer}.{part}.weight"
    for layer in range(2)
    for part in ("self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm")
]


def test_the_lighter_version_has_every_tensor_once() -> None:
    assert [(one.name, one.source) for one in variants.half(NAMES)] == [(name, name) for name in sorted(NAMES)]


def test_the_deeper_version_has_every_layer_so_many_times_and_all_else_once() -> None:
    plan = variants.deeper(NAMES, 4)
    layers = {int(match[1]) for one in plan if (match := variants.LAYER.fullmatch(one.name))}
    assert layers == set(range(8))
    assert len({one.name for one in plan}) == len(plan) == 2 + 4 * (len(NAMES) - 2)


def test_only_a_layer_s_first_copy_adds_to_what_the_model_computes() -> None:
    silent = {one.name for one in variants.deeper(NAMES, 4) if one.zero}
    expected = {f"model.layers.{layer}.{part}" for layer in range(8) if layer % 4 for part in variants.SILENT}
    assert silent == expected


def test_a_layer_is_followed_by_its_own_copies() -> None:
    sources = {one.name: one.source for one in variants.deeper(NAMES, 4)}
    assert sources["model.layers.3.mlp.up_proj.weight"] == "model.layers.0.mlp.up_proj.weight"
    assert sources["model.layers.4.mlp.up_proj.weight"] == "model.layers.1.mlp.up_proj.weight"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    numbers = np.random.default_rng(0)
    save_file({name: numbers.normal(size=(3, 5)).astype(np.float32) for name in NAMES}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 2, "torch_dtype": "float32", "x": 1}))
    for name in variants.COPIED:
        (folder / name).write_text(name)
    return folder


def test_the_lighter_folder_has_half_the_bytes_and_the_same_numbers(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "half"
    target.mkdir()
    variants.write_half(source, target)
    old, new = load_file(source / "model.safetensors"), load_file(target / "model.safetensors")
    assert old.keys() == new.keys()
    for name, values in new.items():
        assert values.dtype == np.float16
        np.testing.assert_allclose(values, old[name], rtol=1e-3, atol=1e-4)
    assert json.loads((target / "config.json").read_text()) == {
        "num_hidden_layers": 2,
        "torch_dtype": "float16",
        "x": 1,
    }


def test_the_deeper_folder_says_so_and_has_zeros_where_it_must_be_silent(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "deep"
    target.mkdir()
    variants.write_deeper(source, target, 3)
    assert json.loads((target / "config.json").read_text())["num_hidden_layers"] == 6
    new = load_file(target / "model.safetensors")
    assert new["model.layers.0.mlp.down_proj.weight"].any()
    assert not new["model.layers.1.mlp.down_proj.weight"].any()
    assert new["model.layers.1.mlp.up_proj.weight"].any()
    assert {path.name for path in target.iterdir()} == {"config.json", "model.safetensors", *variants.COPIED}


def test_weights_that_float16_cannot_hold_are_refused_by_name(source: Path, tmp_path: Path) -> None:
    weights = load_file(source / "model.safetensors")
    weights["model.norm.weight"][0, 0] = 1e6
    save_file(weights, source / "model.safetensors")
    target = tmp_path / "half"
    target.mkdir()
    with pytest.raises(ValueError, match=r"model\.norm\.weight"):
        variants.write_half(source, target)


def test_a_hash_depends_on_where_its_parts_end() -> None:
    assert models.hash_of([b"ab", b"c"]) != models.hash_of([b"a", b"bc"])
    assert models.hash_of([b"ab"]) == models.hash_of([b"ab"])
