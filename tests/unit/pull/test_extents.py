"""Sets of byte intervals, compared with sets of numbers."""

import itertools

from backstay_runtime.pull.extents import Extents, Interval, pieces
from hypothesis import given
from hypothesis import strategies as st

offsets = st.integers(0, 60)
intervals = st.lists(st.tuples(offsets, offsets), max_size=12)


def as_set(found: Extents) -> set[int]:
    return {byte for start, end in found for byte in range(start, end)}


@given(intervals)
def test_extents_hold_exactly_the_bytes_they_were_given(given_: list[tuple[int, int]]) -> None:
    assert as_set(Extents(given_)) == {byte for start, end in given_ for byte in range(start, end)}


@given(intervals)
def test_extents_are_sorted_apart_and_not_empty(given_: list[tuple[int, int]]) -> None:
    found = list(Extents(given_))
    assert all(start < end for start, end in found)
    assert all(left.end < right.start for left, right in itertools.pairwise(found))


@given(intervals, offsets, offsets)
def test_adding_an_interval_is_the_same_as_having_had_it(given_: list[tuple[int, int]], start: int, end: int) -> None:
    assert list(Extents(given_).with_(start, end)) == list(Extents([*given_, (start, end)]))


@given(intervals, st.integers(0, 80))
def test_what_is_missing_and_what_is_there_make_the_file(given_: list[tuple[int, int]], size: int) -> None:
    there = Extents(given_)
    missing = as_set(Extents(there.missing(size)))
    assert missing | {byte for byte in as_set(there) if byte < size} == set(range(size))
    assert not missing & as_set(there)


@given(intervals, offsets)
def test_what_is_reached_from_an_offset_ends_at_the_first_byte_that_is_not_there(
    given_: list[tuple[int, int]], at: int
) -> None:
    there = as_set(Extents(given_))
    assert Extents(given_).reach(at) == next(byte for byte in range(at, 100) if byte not in there)


@given(intervals)
def test_total_and_end_are_those_of_the_bytes(given_: list[tuple[int, int]]) -> None:
    there = as_set(Extents(given_))
    assert Extents(given_).total == len(there)
    assert Extents(given_).end == max(there, default=-1) + 1


@given(intervals, st.integers(1, 9))
def test_pieces_cover_what_is_missing_once_and_none_is_too_long(given_: list[tuple[int, int]], most: int) -> None:
    missing = Extents(given_).missing(60)
    cut = pieces(missing, most)
    assert [byte for start, end in cut for byte in range(start, end)] == sorted(as_set(Extents(missing)))
    assert all(0 < end - start <= most for start, end in cut)


def test_a_whole_file_lacks_nothing() -> None:
    assert Extents([(0, 10)]).missing(10) == []
    assert Extents().missing(10) == [Interval(0, 10)]
    assert Extents().missing(0) == []
