"""How long each step of the start took."""

import time
from collections.abc import Callable, Mapping
from enum import StrEnum


class Step(StrEnum):
    """What a process does before it answers, in this order."""

    VERIFY = "verify"
    """Every file's SHA-256."""
    PREPARE = "prepare"
    """Tokenizer, configuration, and the measurement of a quantization."""
    WEIGHTS = "weights"
    """From the files to the device."""
    WARM_UP = "warm_up"
    """The cache, the compiled step, and the kernels of every size."""


class Laps:
    """A clock that says how long it is since it was last asked."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._seconds: dict[Step, float] = {}

    def end(self, step: Step) -> None:
        """The step has ended, and the next begins."""
        now = self._clock()
        self._seconds[step] = self._seconds.get(step, 0.0) + now - self._last
        self._last = now

    @property
    def seconds(self) -> Mapping[Step, float]:
        """Of the steps that have ended."""
        return dict(self._seconds)
