"""A GGUF file as what is pushed: converted on the way, or refused with what to do."""

from pathlib import Path
from typing import Any

import pytest
from backstay_cli.main import app
from backstay_cli.model.describe import Description
from backstay_cli.storage import push as pushes
from typer.testing import CliRunner

from .test_convert import gguf_tensors, write_gguf

ARGUMENTS = ("s3://models/m/1", "--name", "m", "--version", "1", "--endpoint", "http://storage:9000")


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> list[Description]:
    """What would have gone to the storage; its files are there while it goes."""
    seen: list[Description] = []

    def push(_store: Any, folder: Path, description: Description, *_: Any, **__: Any) -> None:
        assert all((folder / file.path).stat().st_size == file.size for file in description.manifest.files)
        seen.append(description)

    monkeypatch.setattr(pushes, "look", lambda _, description: pushes.Plan(description.manifest.files, (), (), False))
    monkeypatch.setattr(pushes, "push", push)
    return seen


def test_a_gguf_file_is_converted_and_pushed_and_gives_one_digest_each_time(
    tmp_path: Path, pushed: list[Description]
) -> None:
    source = write_gguf(tmp_path / "a.gguf", gguf_tensors())
    ended = [CliRunner().invoke(app, ["push", str(source), *ARGUMENTS]) for _ in range(2)]
    assert [one.exit_code for one in ended] == [0, 0], ended[0].output
    assert {file.path for file in pushed[0].manifest.files} >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert pushed[0].digest == pushed[1].digest == ended[0].stdout.strip()
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_a_gguf_file_that_cannot_be_converted_is_refused_and_nothing_is_sent(
    tmp_path: Path, pushed: list[Description]
) -> None:
    source = write_gguf(tmp_path / "a.gguf", gguf_tensors(), architecture="mamba")
    ended = CliRunner().invoke(app, ["push", str(source), *ARGUMENTS])
    assert (ended.exit_code, pushed) == (3, [])
    assert "mamba" in ended.stderr
    assert "safetensors" in ended.stderr


@pytest.mark.parametrize("share", [0.0001, 0.1, 0.9])
def test_a_gguf_file_that_is_cut_off_is_refused(tmp_path: Path, pushed: list[Description], share: float) -> None:
    data = write_gguf(tmp_path / "a.gguf", gguf_tensors()).read_bytes()
    (tmp_path / "a.gguf").write_bytes(data[: int(len(data) * share) + 8])
    ended = CliRunner().invoke(app, ["push", str(tmp_path / "a.gguf"), *ARGUMENTS])
    assert (ended.exit_code, pushed) == (3, []), ended.output


def test_another_file_is_refused_with_what_can_be_pushed(tmp_path: Path, pushed: list[Description]) -> None:
    (tmp_path / "model.onnx").write_bytes(b"onnx" * 9)
    ended = CliRunner().invoke(app, ["push", str(tmp_path / "model.onnx"), *ARGUMENTS])
    assert (ended.exit_code, pushed) == (2, [])
    assert "GGUF" in ended.stderr
