"""A file's upload beside other pushes: what they have done counts, what they left unfinished is tried again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from backstay_cli.errors import CliError, Exit, refused
from backstay_cli.storage import upload as uploads
from backstay_cli.storage.store import ConflictError, Store, Stored
from backstay_contract.location import Location

SHA, OTHER, SIZE = "a" * 64, "b" * 64, 100
OURS, THEIRS = Stored(SIZE, SHA, ""), Stored(SIZE, OTHER, "")
CONFLICT = ConflictError("another push writes to the same place", Exit.REFUSED)
SERVER_ERROR = CliError("the storage answered 500", Exit.UNREACHABLE)


@dataclass
class Place:
    """A storage whose writes fail with these errors, one each, and in which this is found after each."""

    errors: list[Exception]
    found: list[Stored | CliError | None]
    location: Location = field(default_factory=lambda: Location("models", "m/1"))
    tries: int = 0

    @contextmanager
    def told_apart(self, key: str) -> Iterator[None]:
        yield

    def stat(self, path: str) -> Stored | None:
        there = self.found.pop(0)
        if isinstance(there, CliError):
            raise there
        return there

    def send(self, *arguments: Any) -> None:
        advance: Callable[[int], None] = arguments[-1]
        self.tries += 1
        if self.errors:
            advance(SIZE // 4)
            raise self.errors.pop(0)
        advance(SIZE)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr("backstay_cli.storage.upload.time.sleep", taken.append)
    return taken


def sent(place: Place, monkeypatch: pytest.MonkeyPatch, *, take_over: bool = False) -> int:
    """Bytes that the progress bar was told of."""
    told: list[int] = []
    monkeypatch.setattr(uploads, "_send", place.send)
    uploads.upload(cast(Store, place), Path("w"), "w", SIZE, SHA, told.append, take_over=take_over)
    return sum(told)


def test_the_same_bytes_that_another_push_has_put_there_are_as_good_as_ours(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    place = Place([CONFLICT], [OURS])
    assert (sent(place, monkeypatch), place.tries, pauses) == (SIZE, 1, [])


def test_an_answer_of_5xx_is_no_failure_when_the_same_bytes_are_there_afterwards(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    place = Place([SERVER_ERROR], [OURS])
    assert (sent(place, monkeypatch), place.tries) == (SIZE, 1)


def test_a_push_that_another_one_disturbed_is_tried_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    place = Place([CONFLICT, CONFLICT], [None, None])
    assert (sent(place, monkeypatch), place.tries, pauses) == (SIZE, 3, [0.5, 1.0])


def test_other_bytes_there_end_the_push_at_once(monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    place = Place([CONFLICT], [THEIRS])
    with pytest.raises(ConflictError):
        sent(place, monkeypatch)
    assert (place.tries, pauses) == (1, [])


def test_other_bytes_are_no_obstacle_to_a_push_that_takes_over(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    place = Place([CONFLICT], [THEIRS])
    assert (sent(place, monkeypatch, take_over=True), place.tries) == (SIZE, 2)


def test_conflicts_without_end_end_the_push(monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    place = Place([CONFLICT] * 9, [None] * 9)
    with pytest.raises(ConflictError):
        sent(place, monkeypatch)
    assert pauses == list(uploads.PAUSES)


@pytest.mark.parametrize("found", [None, SERVER_ERROR], ids=["nothing is there", "and it cannot be looked"])
def test_a_storage_that_fails_by_itself_fails_the_push(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float], found: CliError | None
) -> None:
    place = Place([SERVER_ERROR], [found])
    with pytest.raises(CliError, match="500"):
        sent(place, monkeypatch)
    assert (place.tries, pauses) == (1, [])


def test_a_file_that_changed_is_not_tried_again(monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    place = Place([refused("w: changed while it was pushed")], [])
    with pytest.raises(CliError, match="changed"):
        sent(place, monkeypatch)
    assert place.tries == 1
