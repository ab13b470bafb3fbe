"""Which bytes of a file are there: sets of half-open intervals [start, end). Pure."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Interval(NamedTuple):
    """Bytes from start up to, not including, end."""

    start: int
    end: int


class Extents:
    """Sorted, disjoint, non-touching, non-empty intervals of a file's bytes."""

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._intervals: tuple[Interval, ...] = tuple(_merged(intervals))

    def __iter__(self) -> Iterator[Interval]:
        return iter(self._intervals)

    def with_(self, start: int, end: int) -> "Extents":
        """These and [start, end)."""
        return Extents((*self._intervals, (start, end)))

    @property
    def total(self) -> int:
        """Bytes that are there."""
        return sum(end - start for start, end in self._intervals)

    @property
    def end(self) -> int:
        """Nothing is there from this offset on."""
        return self._intervals[-1].end if self._intervals else 0

    def reach(self, at: int) -> int:
        """Everything from `at` up to this offset is there."""
        return next((end for start, end in self._intervals if start <= at < end), at)

    def missing(self, size: int) -> list[Interval]:
        """What a file of `size` bytes still lacks, in order."""
        gaps, at = [], 0
        for start, end in self._intervals:
            if at < min(start, size):
                gaps.append(Interval(at, min(start, size)))
            at = max(at, end)
        if at < size:
            gaps.append(Interval(at, size))
        return gaps


def _merged(intervals: Iterable[tuple[int, int]]) -> Iterator[Interval]:
    present: Interval | None = None
    for start, end in sorted(intervals):
        if start >= end:
            continue
        if present is None or start > present.end:
            if present is not None:
                yield present
            present = Interval(start, end)
        else:
            present = Interval(present.start, max(present.end, end))
    if present is not None:
        yield present


def pieces(missing: Iterable[Interval], most: int) -> list[Interval]:
    """The missing bytes cut into requests of at most `most` bytes, in order."""
    return [Interval(at, min(at + most, end)) for start, end in missing for at in range(start, end, most)]
