"""The real model: what the converter makes of it is what the reference answers were made with."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from backstay_cli.convert import convert_gguf, fetch_smollm2
from backstay_cli.convert.fetch import model_cache
from safetensors.numpy import load_file

REFERENCE: Any = json.loads((Path(__file__).parents[2] / "goldens" / "smollm2.json").read_bytes())


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("converted") / "smollm2"
    convert_gguf(fetch_smollm2(model_cache()), out, lambda _name, _done, _total: None)
    return out


def test_every_tensor_has_the_references_shape_and_hash(converted: Path) -> None:
    tensors = load_file(converted / "model.safetensors")
    rows = REFERENCE["tensors"]["rows"]
    assert tensors.keys() == {row[0] for row in rows}
    for name, shape, _, _, sha256 in rows:
        assert list(tensors[name].shape) == shape
        assert hashlib.sha256(tensors[name].astype("<f4").tobytes()).hexdigest() == sha256, name


def test_every_file_is_the_references_byte_by_byte(converted: Path) -> None:
    wanted = REFERENCE["reproduce"]["files_sha256"]
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in converted.iterdir()}
    assert found == wanted
