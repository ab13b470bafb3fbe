from pathlib import Path, PurePosixPath

import pytest
from backstay_cluster.images import debian, keys, recipes
from backstay_cluster.images.keys import Part
from hypothesis import given
from hypothesis import strategies as st

PARTS = st.lists(st.tuples(st.text(max_size=4), st.binary(max_size=4)), max_size=4)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        *("Dockerfile.operator", "Dockerfile.runtime", ".dockerignore", "LICENSE", "uv.lock", "pyproject.toml"),
        *recipes.MEMBER_FILES,
        *("contract/backstay_contract/names.py", "operator/backstay_operator/a.py", "runtime/backstay_runtime/b.py"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('project = {version = "1.2.3"}')
    monkeypatch.setattr(recipes, "PROJECT", tmp_path)
    return tmp_path


def tag(name: str) -> str:
    return recipes.recipe(name).target().reference


@given(PARTS, PARTS)
def test_two_lists_of_parts_have_one_key_only_if_they_are_equal(one: list[Part], other: list[Part]) -> None:
    assert (keys.key(one) == keys.key(other)) == (one == other)


def test_what_tools_leave_in_a_folder_is_no_content(tmp_path: Path) -> None:
    for name in ("a/b.py", "a/__pycache__/b.cpython-311.pyc", "a/.mypy_cache/x.json", "a/c.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert list(keys.files(tmp_path, ["a"])) == [("a/b.py", b"a/b.py")]


def test_a_change_of_code_gives_the_image_another_tag(project: Path) -> None:
    before = tag("runtime")
    (project / "runtime/backstay_runtime/b.py").write_text("changed")
    assert tag("runtime") != before


def test_a_change_of_the_operator_leaves_the_runtimes_tag_alone(project: Path) -> None:
    before = tag("runtime"), tag("operator")
    (project / "operator/backstay_operator/a.py").write_text("changed")
    assert tag("runtime") == before[0]
    assert tag("operator") != before[1]


def test_a_change_of_the_contract_or_of_the_lock_changes_both(project: Path) -> None:
    for name in ("contract/backstay_contract/names.py", "uv.lock"):
        before = tag("runtime"), tag("operator")
        (project / name).write_text("changed")
        assert tag("runtime") != before[0]
        assert tag("operator") != before[1]


def test_a_change_of_the_base_changes_what_is_built_on_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tag("operator")
    monkeypatch.setattr(debian, "PYTHON_PACKAGES", ("python3",))
    assert tag("operator") != before


def test_the_pause_image_has_the_name_that_containerd_is_configured_with() -> None:
    assert tag("pause") == "localhost/backstay/pause:1"


def test_an_image_of_another_machine_is_another_image(monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipes.recipe("pause").target().key
    monkeypatch.setattr(debian, "architecture", lambda: "another")
    assert recipes.recipe("pause").target().key != before


def test_every_file_that_a_dockerfile_copies_is_part_of_the_key(tmp_path: Path) -> None:
    for name in recipes.PROJECT_IMAGES:
        known = {part for part, _ in recipes.recipe(name).parts()}
        folders = {folder.as_posix() for part in known for folder in PurePosixPath(part).parents}
        dockerfile = (recipes.PROJECT / f"Dockerfile.{name}").read_text()
        copies = [line.split()[1:-1] for line in dockerfile.splitlines() if line.startswith("COPY ")]
        sources = {source for copy in copies if not copy[0].startswith("--from") for source in copy}
        assert sources
        assert all(source in known or source in folders for source in sources), sources
