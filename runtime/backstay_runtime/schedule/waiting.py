"""The order in which waiting sequences get their turn: by class, and by how long they have waited. Pure."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from backstay_runtime.schedule.sequence import Sequence

Rank = tuple[float, int]


def rank(sequence: Sequence) -> Rank:
    """The lower, the earlier its turn; fixed from arrival on, so everybody's turn comes."""
    return sequence.arrival + sequence.priority.lag, sequence.number


class Waiting:
    """A queue by rank. One that was put back takes the place it had."""

    def __init__(self) -> None:
        self._sequences: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences)

    def __contains__(self, sequence: Sequence) -> bool:
        place = bisect_left(self._sequences, rank(sequence), key=rank)
        return place < len(self._sequences) and self._sequences[place] is sequence

    def add(self, sequence: Sequence) -> None:
        """Lets it wait."""
        insort(self._sequences, sequence, key=rank)

    def remove(self, sequence: Sequence) -> None:
        """Takes it out. Raises ValueError when it does not wait."""
        if sequence not in self:
            raise ValueError(f"sequence {sequence.number} does not wait")
        del self._sequences[bisect_left(self._sequences, rank(sequence), key=rank)]
