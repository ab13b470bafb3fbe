"""Which files of a folder can be part of a model."""

import json
import pickle
import zipfile
from pathlib import Path

import pytest
from backstay_cli.errors import CliError, Exit
from backstay_cli.model.describe import checked_listing
from backstay_cli.model.files import LFS_POINTER, listing, refusal, refusals, safetensors_problem
from backstay_contract.manifest import check_path
from hypothesis import given
from hypothesis import strategies as st


def write(folder: Path, *paths: str) -> Path:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    return folder


def safetensors(*, tail: bytes = b"", cut: int = 0) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    data = len(header).to_bytes(8, "little") + header + bytes(8) + tail
    return data[: len(data) - cut]


def test_a_folders_files_are_listed_sorted_with_forward_slashes(tmp_path: Path) -> None:
    found = listing(write(tmp_path, "b.txt", "a/c.txt", "a/b/d.txt"))
    assert found.kept == ("a/b/d.txt", "a/c.txt", "b.txt")


def test_hidden_files_and_an_old_manifest_are_left_out(tmp_path: Path) -> None:
    found = listing(write(tmp_path, "a.txt", ".gitattributes", ".git/config", "manifest.json"))
    assert found.kept == ("a.txt",)
    assert found.left_out == (".git/config", ".gitattributes", "manifest.json")


def test_globs_leave_files_out(tmp_path: Path) -> None:
    found = listing(write(tmp_path, "a.txt", "onnx/model.onnx", "b.bin"), ("*.bin", "onnx/*"))
    assert found.kept == ("a.txt",)


def test_links_to_files_are_followed_as_download_caches_have_them(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / "abc"
    write(tmp_path, "blobs/abc")
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "config.json").symlink_to(blob)
    assert listing(snapshot).kept == ("config.json",)
    assert refusals(snapshot, ["config.json"]) == []


@pytest.mark.parametrize("target", ["nowhere", "folder"])
def test_links_to_folders_and_to_nothing_are_refused_by_name(tmp_path: Path, target: str) -> None:
    write(tmp_path, "folder/x.txt")
    model = write(tmp_path / "model", "a.txt")
    (model / "link").symlink_to(tmp_path / target)
    with pytest.raises(CliError, match="link: is no plain file"):
        checked_listing(model, ())


def test_an_empty_folder_is_refused_and_a_missing_one_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(CliError) as empty:
        listing(tmp_path)
    with pytest.raises(CliError) as missing:
        listing(tmp_path / "nowhere")
    assert (empty.value.code, missing.value.code) == (Exit.REFUSED, Exit.USAGE)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", [{"w": 1}, [1], "text", 1.5, None, (1, 2), object])
def test_a_pickle_is_refused_whatever_its_name(protocol: int, value: object) -> None:
    said = refusal("weights.dat", pickle.dumps(value, protocol))
    assert said is not None
    assert "pickle" in said


def test_a_torch_archive_is_refused_whatever_its_name(tmp_path: Path) -> None:
    file = tmp_path / "weights.dat"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"")
    said = refusal("weights.dat", file.read_bytes())
    assert said is not None
    assert "pickle" in said


@pytest.mark.parametrize(
    ("path", "head", "word"),
    [
        ("model.safetensors.incomplete", b"", "unfinished"),
        ("model.safetensors", LFS_POINTER + b"v1\noid sha256:abc\n", "git lfs pull"),
        ("pytorch_model.bin", b"", "pickled"),
        ("a\\b.txt", b"", "backslashes"),
    ],
)
def test_what_cannot_be_a_models_file_says_why(path: str, head: bytes, word: str) -> None:
    said = refusal(path, head)
    assert said is not None
    assert word in said
    assert path.split("\\", maxsplit=1)[0] in said


@given(st.text("ab/. _-+é", min_size=1, max_size=20), st.binary(max_size=2))
def test_a_path_that_the_contract_takes_is_taken_here_and_no_other(path: str, head: bytes) -> None:
    try:
        check_path(path)
        taken = True
    except ValueError:
        taken = False
    assert (refusal(path, head) is None) == taken


def test_a_whole_safetensors_file_has_no_problem(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(safetensors())
    assert safetensors_problem(tmp_path / "w.safetensors") is None


@given(st.integers(1, 70))
def test_a_cut_off_safetensors_file_is_refused(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    file = tmp_path_factory.mktemp("cut") / "w.safetensors"
    file.write_bytes(safetensors(cut=cut))
    assert safetensors_problem(file) is not None


@given(st.binary(max_size=80))
def test_no_bytes_make_the_check_of_safetensors_fail(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.mktemp("any") / "w.safetensors"
    file.write_bytes(data)
    safetensors_problem(file)
    file.write_bytes(len(data).to_bytes(8, "little") + data)
    safetensors_problem(file)


def test_bytes_behind_the_last_tensor_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(safetensors(tail=b"x"))
    assert "download it again" in str(safetensors_problem(tmp_path / "w.safetensors"))


def test_all_refusals_are_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, "a.bin", "b.pt", "c.txt")
    with pytest.raises(CliError) as caught:
        checked_listing(tmp_path, ())
    assert "a.bin" in str(caught.value)
    assert "b.pt" in str(caught.value)
    assert "c.txt" not in str(caught.value)
