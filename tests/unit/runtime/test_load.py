from pathlib import Path

import pytest
import torch
from backstay_runtime.model.errors import ModelError
from backstay_runtime.model.linear import Dtype
from backstay_runtime.model.load import load_llama
from safetensors.torch import save_file

from . import tiny

CPU = torch.device("cpu")


def load(folder: Path) -> None:
    load_llama(folder, dtype=Dtype.FLOAT32, device=CPU, positions=64)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    weights = tiny.tensors()
    del weights["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(ModelError, match=r"missing: model\.layers\.1\.mlp\.up_proj\.weight"):
        load(tiny.write(tmp_path, weights))


def test_a_tensor_too_many_is_named(tmp_path: Path) -> None:
    weights = tiny.tensors() | {"model.layers.2.mlp.up_proj.weight": torch.zeros(1)}
    with pytest.raises(ModelError, match=r"extra: model\.layers\.2\.mlp\.up_proj\.weight"):
        load(tiny.write(tmp_path, weights))


def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path: Path) -> None:
    weights = tiny.tensors() | {"model.norm.weight": torch.zeros(31)}
    with pytest.raises(ModelError, match=r"mis-shaped: model\.norm\.weight \[31\] instead of \[32\]"):
        load(tiny.write(tmp_path, weights))


def test_many_wrong_tensors_are_counted_and_not_all_listed(tmp_path: Path) -> None:
    weights = {name: one for name, one in tiny.tensors().items() if "layers.0" not in name}
    with pytest.raises(ModelError, match="and 4 more"):
        load(tiny.write(tmp_path, weights))


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    tiny.write(tmp_path)
    save_file({"model.norm.weight": torch.ones(32)}, tmp_path / "second.safetensors")
    with pytest.raises(ModelError, match="occurs in two files"):
        load(tmp_path)


def test_weights_may_be_spread_over_several_files(tmp_path: Path) -> None:
    weights = tiny.tensors()
    tiny.write(tmp_path, {name: one for name, one in weights.items() if "layers.0" not in name})
    save_file({name: one for name, one in weights.items() if "layers.0" in name}, tmp_path / "second.safetensors")
    load(tmp_path)


def test_weights_that_are_no_floating_numbers_are_refused(tmp_path: Path) -> None:
    weights = tiny.tensors() | {"model.norm.weight": torch.ones(32, dtype=torch.int32)}
    with pytest.raises(ModelError, match=r"'model\.norm\.weight' has type I32"):
        load(tiny.write(tmp_path, weights))


def test_a_cut_file_is_refused_by_name(tmp_path: Path) -> None:
    tiny.write(tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(ModelError, match=r"model\.safetensors is no safetensors file"):
        load(tmp_path)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    tiny.write(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no \\*\\.safetensors file"):
        load(tmp_path)


def test_a_broken_config_is_refused_by_name(tmp_path: Path) -> None:
    tiny.write(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json cannot be read"):
        load(tmp_path)


def test_a_loaded_model_keeps_no_file_mapped(tmp_path: Path) -> None:
    """Its pages would stay in memory beside the packed weights."""
    model = load_llama(tiny.write(tmp_path), dtype=Dtype.FLOAT32, device=CPU, positions=64)
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    assert model.config.layers == 2
