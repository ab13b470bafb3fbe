"""The partial folder: what it remembers, and what it does not believe."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from backstay_runtime.pull.extents import Extents
from backstay_runtime.pull.partial import Partial, replay
from hypothesis import given
from hypothesis import strategies as st

HEX = "ab" * 32


Open = Callable[..., Partial]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens the partial folder as one process after another does; a killed one never closes it properly."""
    with ExitStack() as stack:

        def open_(*paths: str) -> Partial:
            partial = Partial(tmp_path, HEX)
            partial.open(paths or ("w", "d/w"))
            stack.callback(partial.close)
            return partial

        yield open_


def test_recorded_bytes_are_there_for_the_next_process(opened: Open) -> None:
    first = opened()
    first.start("d/w", 100)
    first.record("d/w", "e1", 0, 40)
    first.record("d/w", "e1", 60, 80)
    assert list(opened().have("d/w", "e1", 100)) == [(0, 40), (60, 80)]


def test_bytes_of_another_object_do_not_count(opened: Open) -> None:
    first = opened()
    first.start("w", 100)
    first.record("w", "e1", 0, 40)
    assert opened().have("w", "e2", 100).total == 0


def test_bytes_of_a_file_that_is_gone_or_has_another_size_do_not_count(opened: Open) -> None:
    first = opened()
    file = first.start("w", 100)
    first.record("w", "e1", 0, 40)
    file.write_bytes(b"x" * 30)
    assert opened().have("w", "e1", 100).total == 0
    file.unlink()
    assert opened().have("w", "e1", 100).total == 0


def test_a_reset_file_is_forgotten(opened: Open) -> None:
    first = opened()
    file = first.start("w", 100)
    first.record("w", "e1", 0, 40)
    first.reset("w")
    assert not file.exists()
    assert opened().have("w", "e1", 100).total == 0


def test_a_torn_line_loses_only_itself(opened: Open) -> None:
    first = opened()
    first.start("w", 100)
    first.record("w", "e1", 0, 40)
    journal = first.folder / "journal"
    journal.write_text(journal.read_text() + '{"path": "w", "etag": "e1", "fr')
    second = opened()
    second.record("w", "e1", 40, 50)
    assert list(opened().have("w", "e1", 100)) == [(0, 50)]


def test_files_that_the_manifest_does_not_list_are_removed(opened: Open) -> None:
    first = opened("w", "d/w")
    first.start("w", 1)
    first.start("d/w", 1)
    second = opened("w")
    assert (second.model / "w").exists()
    assert not (second.model / "d/w").exists()


@pytest.mark.parametrize("where", ["model/w", "model/d"])
def test_a_folder_with_a_link_in_it_is_thrown_away(tmp_path: Path, opened: Open, where: str) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "w").write_bytes(b"precious")
    first = opened()
    first.start("x", 1)
    (first.folder / where).symlink_to(target / "w" if where.endswith("w") else target)
    second = opened()
    second.start("w", 4)
    second.start("d/w", 4)
    assert (target / "w").read_bytes() == b"precious"


def test_a_discarded_folder_is_gone(opened: Open) -> None:
    partial = opened()
    partial.start("w", 1)
    partial.discard()
    assert not partial.folder.exists()


entries = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["e1", "e2"]), st.integers(0, 50), st.integers(0, 50)),
    max_size=20,
)


@given(entries, st.integers(0, 400))
def test_a_journal_cut_off_anywhere_never_claims_more_than_the_whole_one_did_at_that_time(
    written: list[tuple[str, str, int, int]], cut: int
) -> None:
    lines = [json.dumps({"path": p, "etag": e, "from": a, "to": b}) + "\n" for p, e, a, b in written]
    text = "".join(lines)[:cut]
    # The last line may miss its end and still be whole.
    whole = len([1 for index in range(len(lines)) if sum(map(len, lines[: index + 1])) - 1 <= len(text)])
    for path, (etag, extents) in replay(text.splitlines()).items():
        since = 0
        mine = [(e, a, b) for p, e, a, b in written[:whole] if p == path]
        for index, (one, _, _) in enumerate(mine):
            since = index if index == 0 or mine[index - 1][0] != one else since
        assert etag == mine[-1][0]
        assert list(extents) == list(Extents((a, b) for _, a, b in mine[since:]))


@given(st.lists(st.text(max_size=40), max_size=10))
def test_no_journal_is_too_odd_to_be_read(lines: list[str]) -> None:
    replay(lines)
