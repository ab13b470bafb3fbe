"""Which texts an encoder computes together, and how long it is worth waiting for more. Pure: no torch, no clock."""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field

_FORGETTING = 0.98
"""Of what was learned, kept at each batch: a machine that becomes busier is noticed within some fifty."""


@dataclass(frozen=True, slots=True, order=True)
class Text:
    """One text that waits."""

    tokens: int
    number: int
    """Counts up; the older one has the smaller number."""
    arrival: float = field(compare=False)


@dataclass(slots=True)
class Cost:
    """Seconds of a batch as a × n + b for n padded tokens, learned by least squares that forget."""

    weight: float = 0.0
    sum_n: float = 0.0
    sum_nn: float = 0.0
    sum_s: float = 0.0
    sum_ns: float = 0.0

    def learn(self, tokens: int, seconds: float) -> None:
        """One batch was computed."""
        self.weight = self.weight * _FORGETTING + 1
        self.sum_n = self.sum_n * _FORGETTING + tokens
        self.sum_nn = self.sum_nn * _FORGETTING + tokens * tokens
        self.sum_s = self.sum_s * _FORGETTING + seconds
        self.sum_ns = self.sum_ns * _FORGETTING + tokens * seconds

    @property
    def line(self) -> tuple[float, float]:
        """a and b, neither below 0; b is 0 until batches of different sizes have been seen."""
        if not self.weight:
            return 0.0, 0.0
        spread = self.weight * self.sum_nn - self.sum_n**2
        if spread <= 1e-9 * self.sum_nn * self.weight:
            return self.sum_s / self.sum_n, 0.0
        slope = (self.weight * self.sum_ns - self.sum_n * self.sum_s) / spread
        base = (self.sum_s - slope * self.sum_n) / self.weight
        if slope < 0:
            return 0.0, self.sum_s / self.weight
        return (slope, base) if base > 0 else (self.sum_ns / self.sum_nn, 0.0)

    def seconds(self, tokens: int) -> float:
        """What a batch of so many padded tokens should take."""
        slope, base = self.line
        return slope * tokens + base


class Packer:
    """Texts that wait, and the choice of the next batch.

    Invariant: the oldest is in every batch, so none starves; a batch of more than one text has at most `budget` padded
    tokens.
    """

    def __init__(self, *, budget: int, most_texts: int, most_wait: float) -> None:
        """`most_wait`: seconds for which a text may wait for company."""
        self.cost = Cost()
        self._budget = budget
        self._most_texts = most_texts
        self._most_wait = most_wait
        self._waiting: list[Text] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, text: Text) -> None:
        """One more that waits."""
        insort(self._waiting, text)

    def drop(self, numbers: Sequence[int]) -> None:
        """Nobody wants these any more."""
        gone = set(numbers)
        self._waiting = [text for text in self._waiting if text.number not in gone]

    def start_at(self) -> float | None:
        """When the next batch should start; None while nothing waits.

        Company saves a text no more than b, the part of a batch's time that does not depend on its size: so it is
        not waited for longer than that.
        """
        if not self._waiting:
            return None
        oldest = min(self._waiting, key=lambda text: text.number)
        if len(self._chosen(oldest)) < len(self._waiting) or len(self._waiting) >= self._most_texts:
            return oldest.arrival  # it is full
        return oldest.arrival + min(self._most_wait, self.cost.line[1])

    def take(self) -> list[Text]:
        """The next batch, shortest first; its texts wait no longer."""
        if not self._waiting:
            return []
        chosen = self._chosen(min(self._waiting, key=lambda text: text.number))
        self.drop([text.number for text in chosen])
        return chosen

    def backlog_seconds(self) -> float:
        """What the texts that wait should take, a batch after another."""
        tokens = sum(text.tokens for text in self._waiting)
        slope, base = self.cost.line
        return slope * tokens + base * max(1, -(-tokens // self._budget)) if tokens else 0.0

    def _chosen(self, oldest: Text) -> list[Text]:
        """The oldest and those nearest to it in length, as many as the budget holds."""
        place = self._waiting.index(oldest)
        low, high = place, place + 1
        while high - low < self._most_texts:
            shorter = self._waiting[low - 1] if low > 0 else None
            longer = self._waiting[high] if high < len(self._waiting) else None
            if longer is not None and longer.tokens * (high - low + 1) > self._budget:
                longer = None
            if shorter is not None and self._waiting[high - 1].tokens * (high - low + 1) > self._budget:
                shorter = None
            if shorter is None and longer is None:
                break
            if longer is None or (shorter is not None and _nearer(shorter, longer, oldest)):
                low -= 1
            else:
                high += 1
        return self._waiting[low:high]


def _nearer(shorter: Text, longer: Text, oldest: Text) -> bool:
    return oldest.tokens - shorter.tokens <= longer.tokens - oldest.tokens
