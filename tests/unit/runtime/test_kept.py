"""The folder of machine code, begun with what an image brings along."""

import os
import shutil
from pathlib import Path

import pytest
from backstay_runtime.kernels import kept


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    folder = kept.folder_in(tmp_path / "image")
    (folder / "kernels_1").mkdir(parents=True)
    (folder / "kernels_1" / "step.nbi").write_bytes(b"index")
    (folder / "kernels_1" / "step.1.nbc").write_bytes(b"code")
    return folder


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_new_folder_begins_with_all_that_was_shipped(tmp_path: Path, shipped: Path) -> None:
    folder = kept.folder_in(tmp_path / "own")
    assert kept.prepare(folder, shipped)
    assert files(folder) == files(shipped)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name], "nothing else is left there"


def test_without_anything_shipped_it_begins_empty(tmp_path: Path) -> None:
    for shipped in (None, tmp_path / "image" / "of another version"):
        folder = kept.folder_in(tmp_path / "own")
        assert kept.prepare(folder, shipped)
        assert files(folder) == []


def test_what_was_compiled_since_is_not_replaced(tmp_path: Path, shipped: Path) -> None:
    folder = kept.folder_in(tmp_path / "own")
    folder.mkdir(parents=True)
    (folder / "own.nbi").write_bytes(b"own")
    assert kept.prepare(folder, shipped)
    assert files(folder) == ["own.nbi"]


def test_a_copy_that_breaks_off_leaves_no_half_of_it(tmp_path: Path, shipped: Path) -> None:
    (shipped / "kernels_1" / "attend.nbi").symlink_to("nowhere")
    folder = kept.folder_in(tmp_path / "own")
    assert not kept.prepare(folder, shipped), "where a copy fails, numba's own files would"
    assert files(folder.parent) == []


def test_a_folder_that_was_left_empty_is_filled(tmp_path: Path, shipped: Path) -> None:
    folder = kept.folder_in(tmp_path / "own")
    folder.mkdir(parents=True)
    assert kept.prepare(folder, shipped)
    assert files(folder) == files(shipped)


def test_the_copy_can_be_written_though_what_was_shipped_cannot(tmp_path: Path, shipped: Path) -> None:
    folder = kept.folder_in(tmp_path / "own")
    for one in (shipped / "kernels_1", shipped):
        one.chmod(0o555)
    try:
        assert kept.prepare(folder, shipped)
        assert {path.stat().st_mode & 0o777 for path in (folder, folder / "kernels_1")} == {0o755}
    finally:
        for one in (shipped, shipped / "kernels_1"):
            one.chmod(0o755)


def test_whoever_is_second_takes_what_the_first_has_copied(
    tmp_path: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rename = kept.folder_in(tmp_path / "own"), Path.rename

    def meanwhile(copy: Path, to: Path) -> Path:
        shutil.copytree(shipped, folder)
        (folder / "own.nbi").write_bytes(b"own")
        return rename(copy, to)

    monkeypatch.setattr(Path, "rename", meanwhile)
    assert kept.prepare(folder, shipped)
    assert files(folder.parent) == sorted(f"{folder.name}/{one}" for one in [*files(shipped), "own.nbi"])


def test_where_nothing_can_be_written_it_says_so(tmp_path: Path, shipped: Path) -> None:
    (tmp_path / "file").touch()
    assert not kept.prepare(kept.folder_in(tmp_path / "file"), shipped)


def test_a_folder_that_cannot_be_written_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)  # root may write everywhere
    assert not kept.prepare(kept.folder_in(tmp_path), None)


def test_its_name_follows_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tmp_path / "kernels"
    shutil.copytree(Path(kept.__file__).parent, sources, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(kept, "__file__", str(sources / "kept.py"))
    before = kept.folder_in(tmp_path)
    (sources / "heads.py").write_text((sources / "heads.py").read_text() + "\n")
    assert kept.folder_in(tmp_path) != before
