"""Whether a request may come in at all, and when a refused one should come back. Pure."""

import math

from backstay_runtime.schedule.limiter import Limiter

_WEIGHT = 0.2  # of the newest request in the moving average
_LONGEST_WAIT = 60  # seconds; a client that was told more would rather give up


class QueueFullError(Exception):
    """As many sequences are here as may be."""

    def __init__(self, waiting: int, retry_after: int) -> None:
        super().__init__(f"{waiting} sequences wait already")
        self.retry_after = retry_after
        """Seconds after which there should be room."""


class Admission:
    """Bounds the sequences that run and wait: beyond that, an early refusal is kinder than a late answer."""

    def __init__(self, *, max_sequences: int, queue_length: int, target_seconds: float | None = None) -> None:
        """With a target, fewer are let in while answers take much longer than that."""
        self._max_sequences = max_sequences
        self._limiter = Limiter(target_seconds, least=1, most=max_sequences + queue_length)
        self._mean_seconds = 1.0

    @property
    def limit(self) -> int:
        """Sequences that may run or wait at present."""
        return self._limiter.limit

    def check(self, present: int, wanted: int) -> None:
        """Raises QueueFullError unless `wanted` sequences may join the `present` ones that run or wait.

        Into an empty server a request always comes, however many sequences it asks for.
        """
        if present + wanted > self.limit and (present or wanted > self._limiter.most):
            waiting = max(0, present - self._max_sequences)
            rounds = 1 + waiting / self._max_sequences
            wait = math.ceil(self._mean_seconds * rounds)
            raise QueueFullError(waiting, min(max(1, wait), _LONGEST_WAIT))

    def served(self, seconds: float) -> None:
        """Learns how long a request took from arrival to end."""
        self._mean_seconds += _WEIGHT * (seconds - self._mean_seconds)
        self._limiter.answered(seconds)
