"""How many sequences may be here at once so that answers stay quick. Pure.

Additive queues hide overload: everybody waits, and nobody is served in time. So the number follows the measured
latency around a target: a tenth less above one and a half times of it, a tenth more below four fifths.
"""

TOO_SLOW, QUICK = 1.5, 0.8
"""Of the target."""
LESS, MORE = 0.9, 1.1
WINDOW = 16
"""Answers between two changes: one slow answer is no overload."""


class Limiter:
    """Learns from answers; `limit` is what it allows now."""

    def __init__(self, target_seconds: float | None, *, least: int, most: int) -> None:
        """Without a target the limit is always `most`."""
        self._target = target_seconds
        self._least, self._most = least, max(least, most)
        self._limit = float(self._most)
        self._sum, self._count = 0.0, 0

    @property
    def most(self) -> int:
        """Sequences that may ever wait or run."""
        return self._most

    @property
    def limit(self) -> int:
        """Sequences that may wait or run."""
        return int(self._limit)

    def answered(self, seconds: float) -> None:
        """An answer took so long from arrival to end."""
        if self._target is None:
            return
        self._sum, self._count = self._sum + seconds, self._count + 1
        if self._count < WINDOW:
            return
        mean, self._sum, self._count = self._sum / self._count, 0.0, 0
        if mean > TOO_SLOW * self._target:
            self._limit = max(float(self._least), self._limit * LESS)
        elif mean < QUICK * self._target:
            self._limit = min(float(self._most), self._limit * MORE)
