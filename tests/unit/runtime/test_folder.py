import shutil
from pathlib import Path

import pytest
from backstay_contract import digest as digests
from backstay_contract import manifest as manifests
from backstay_contract.manifest import Architecture, Manifest, ModelFile
from backstay_contract.termination import GaveUp
from backstay_runtime.folder import GiveUpError, open_model


@pytest.fixture
def published(folder: Path, tmp_path: Path) -> tuple[Path, str]:
    """A copy of the tiny model with a manifest, and its digest."""
    copy = tmp_path / "model"
    shutil.copytree(folder, copy)
    files = tuple(
        ModelFile(path=path.name, size=path.stat().st_size, sha256=digests.of_bytes(path.read_bytes()))
        for path in sorted(copy.iterdir())
    )
    manifest = Manifest(name="tiny", version="1.2.0", files=files, architecture=Architecture(family="llama"))
    (copy / "manifest.json").write_bytes(manifests.dump(manifest))
    return copy, manifests.digest_of(manifests.dump(manifest))


def refusal(folder: Path, digest: str | None, reason: GaveUp) -> GiveUpError:
    with pytest.raises(GiveUpError) as refused:
        open_model(folder, digest)
    assert refused.value.termination.reason is reason
    return refused.value


def test_a_whole_model_is_opened_with_its_digest(published: tuple[Path, str]) -> None:
    folder, digest = published
    manifest, found = open_model(folder, digest)
    assert (manifest.name, manifest.version, found) == ("tiny", "1.2.0", digest)
    assert open_model(folder, None) == (manifest, digest)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "chat_template.jinja"])
def test_a_flipped_byte_in_any_file_is_named(published: tuple[Path, str], name: str) -> None:
    folder, digest = published
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    said = refusal(folder, digest, GaveUp.DIGEST_MISMATCH).termination
    assert said.path == name
    assert said.expected != said.actual


def test_a_cut_file_is_named_with_both_sizes(published: tuple[Path, str]) -> None:
    folder, digest = published
    (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes()[:-5])
    said = refusal(folder, digest, GaveUp.DIGEST_MISMATCH).termination
    assert said.path == "tokenizer.json"
    assert int(said.expected or 0) - int(said.actual or 0) == 5


def test_a_missing_file_is_named(published: tuple[Path, str]) -> None:
    folder, digest = published
    (folder / "config.json").unlink()
    assert "config.json" in str(refusal(folder, digest, GaveUp.MODEL_NOT_FOUND))


def test_another_manifest_than_the_one_asked_for_is_refused_before_anything_is_read(
    published: tuple[Path, str],
) -> None:
    folder, digest = published
    manifest = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(manifest.replace('"1.2.0"', '"1.2.1"'))
    (folder / "model.safetensors").unlink()
    assert refusal(folder, digest, GaveUp.DIGEST_MISMATCH).termination.path == "manifest.json"


def test_a_manifest_that_is_none_is_refused_by_field(published: tuple[Path, str]) -> None:
    folder, _ = published
    (folder / "manifest.json").write_text("{}")
    digest = digests.of_bytes(b"{}")
    assert "name" in str(refusal(folder, digest, GaveUp.MANIFEST_INVALID))


def test_a_model_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    refusal(tmp_path / "none", "sha256:" + "ab" * 32, GaveUp.MODEL_NOT_FOUND)
    refusal(tmp_path / "none", None, GaveUp.MODEL_NOT_FOUND)
    refusal(tmp_path, None, GaveUp.MODEL_NOT_FOUND)


def test_a_folder_without_a_manifest_has_the_digest_that_its_files_give(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "tiny")
    manifest, digest = open_model(tmp_path / "tiny", None)
    assert digest == manifests.digest_of(manifests.dump(manifest)) == open_model(folder, None)[1]
    (tmp_path / "tiny" / "config.json").write_text("{}")
    assert open_model(tmp_path / "tiny", None)[1] != digest
