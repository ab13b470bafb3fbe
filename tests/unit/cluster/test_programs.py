import os
import threading
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from backstay_cluster import locks, programs, toolchain
from backstay_cluster.errors import ClusterError
from backstay_cluster.programs import Program
from backstay_cluster.progress import Progress

GO = """\
#!/bin/sh
echo "built in $PWD" >> "$LOG"
echo example.com/package >&2
while [ "$1" != "-o" ]; do shift; done
[ -z "$FAIL" ] || { echo "main.go:1: no" >&2; exit 1; }
sleep 0.3
echo program > "$2" && chmod +x "$2"
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    for file in ("go.mod", "go.sum", "programs/kube/main.go", "programs/coredns/main.go"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(file)
    return folder


@pytest.fixture
def apart(sources: Path) -> Program:
    """A program of a module of its own."""
    for file in ("go.mod", "go.sum", "main.go"):
        (sources / "programs/apart" / file).parent.mkdir(parents=True, exist_ok=True)
        (sources / "programs/apart" / file).write_text(file)
    return Program("apart", "./", module="programs/apart")


@pytest.fixture
def builds(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """A Go that takes no time; the function tells how often it was called."""
    go, log = tmp_path / "go", tmp_path / "go.log"
    go.write_text(GO)
    go.chmod(0o755)
    monkeypatch.setattr(programs, "SOURCES", sources)
    monkeypatch.setattr(programs.key, "__defaults__", (sources,))
    monkeypatch.setattr(toolchain, "go", lambda progress: go)
    monkeypatch.setenv("LOG", str(log))
    monkeypatch.setenv("BACKSTAY_CACHE", str(tmp_path / "cache"))
    return lambda: log.read_text().count("built in ") if log.exists() else 0


def _quiet() -> Progress:
    return Progress(StringIO())


KUBE = programs.PROGRAMS["kube"]
CTR = programs.PROGRAMS["ctr"]


def test_the_key_changes_with_everything_that_decides_the_program(sources: Path) -> None:
    keys = {programs.key(KUBE, sources)}
    for file in ("go.mod", "go.sum", "programs/kube/main.go"):
        (sources / file).write_text("changed")
        keys.add(programs.key(KUBE, sources))
    (sources / "programs/kube/more.go").write_text("")
    keys.add(programs.key(KUBE, sources))
    keys.add(programs.key(Program(KUBE.name, KUBE.package, "-s"), sources))
    assert len(keys) == 6


def test_another_programs_sources_do_not_change_the_key(sources: Path) -> None:
    before = programs.key(KUBE, sources), programs.key(CTR, sources)
    (sources / "programs/coredns/main.go").write_text("changed")
    assert (programs.key(KUBE, sources), programs.key(CTR, sources)) == before


def test_text_moved_from_one_file_to_the_next_changes_the_key(sources: Path) -> None:
    (sources / "go.mod").write_text("ab")
    (sources / "go.sum").write_text("c")
    before = programs.key(CTR, sources)
    (sources / "go.mod").write_text("a")
    (sources / "go.sum").write_text("bc")
    assert programs.key(CTR, sources) != before


def test_only_its_own_files_decide_a_program_of_a_module_of_its_own(sources: Path, apart: Program) -> None:
    keys = [programs.key(apart, sources)]
    for file in ("go.mod", "go.sum", "main.go"):
        (sources / "programs/apart" / file).write_text("changed")
        keys.append(programs.key(apart, sources))
    (sources / "go.sum").write_text("changed")
    assert len(set(keys)) == 4
    assert programs.key(apart, sources) == keys[-1]


def test_a_program_is_built_in_the_folder_of_its_module(
    builds: Callable[[], int], sources: Path, apart: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(programs.PROGRAMS, "apart", apart)
    programs.ensure(["apart", "ctr"], _quiet())
    folders = (tmp_path / "go.log").read_text().replace("built in ", "").split()
    assert folders == [str(sources / "programs/apart"), str(sources)]


def test_what_only_a_benchmark_needs_is_built_when_it_is_named_alone() -> None:
    assert "rclone" in programs.PROGRAMS
    assert "rclone" not in programs.DEFAULT


def test_a_program_is_built_once(builds: Callable[[], int]) -> None:
    first = programs.ensure(["kube"], _quiet())
    assert programs.ensure(["kube"], _quiet()) == first
    assert first["kube"].read_text() == "program\n"
    assert os.access(first["kube"], os.X_OK)
    assert builds() == 1
    assert programs.built("kube") == first["kube"]
    assert programs.built("ctr") is None


def test_two_builds_at_once_make_one(builds: Callable[[], int]) -> None:
    threads = [threading.Thread(target=programs.ensure, args=(["kube"], _quiet())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert builds() == 1


def test_a_failed_build_tells_the_compilers_words_and_leaves_nothing(
    builds: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIL", "1")
    with pytest.raises(ClusterError, match=r"main\.go:1: no"):
        programs.ensure(["kube"], _quiet())
    assert [path.name for path in (tmp_path / "cache" / "programs").iterdir()] == ["kube.lock"]
    monkeypatch.delenv("FAIL")
    assert programs.ensure(["kube"], _quiet())["kube"].exists()
    assert builds() == 2


def test_an_unknown_program_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ClusterError, match=r"no program nonsense: there are kube, "):
        programs.chosen(["kube", "nonsense"])


def test_links_follow_the_newest_build_under_all_names(
    builds: Callable[[], int], sources: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    programs.link(programs.ensure(["kube"], _quiet()), folder)
    (sources / "go.sum").write_text("newer")
    newer = programs.ensure(["kube"], _quiet())
    programs.link(newer, folder)
    assert {path.name for path in folder.iterdir()} == {"kube", *KUBE.also_called}
    assert {path.readlink() for path in folder.iterdir()} == {newer["kube"]}


def test_who_waited_for_a_lock_that_was_deleted_takes_a_new_one(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "a.lock", [0], [0]

    def work() -> None:
        with locks.held(path, remove=True):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.01)
            inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.27rc1 linux/arm64", (1, 27)),
        ("go version devel +1234", None),
        ("", None),
    ],
)
def test_versions_of_go_are_read(text: str, version: tuple[int, int] | None) -> None:
    assert toolchain.parse_version(text) == version
