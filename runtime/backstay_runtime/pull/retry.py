"""How often and how long to wait before another try. Pauses, randomness and the log are arguments."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from backstay_contract.termination import GaveUp

from backstay_runtime.pull.errors import PullError, TransientError
from backstay_runtime.pull.log import Log

Result = TypeVar("Result")


@dataclass(frozen=True)
class Backoff:
    """Growing pauses between a bounded number of tries."""

    attempts: int = 7
    """Tries in a row without progress; their pauses add up to about 25 s, and timeouts come on top."""
    first_seconds: float = 0.5
    most_seconds: float = 8.0

    def pause(self, failures: int, random: float) -> float | None:
        """Seconds to wait after so many failures in a row (1 or more), or None when it is time to give up.

        `random` in [0, 1) spreads pods that fail together: the pause lies between half and the whole.
        """
        if failures >= self.attempts:
            return None
        whole = min(self.most_seconds, self.first_seconds * 2.0 ** (failures - 1))
        return whole * (0.5 + 0.5 * random)


class Retries:
    """The tries of one request."""

    def __init__(self, backoff: Backoff, wait: Callable[[float], None], random: Callable[[], float], log: Log) -> None:
        self._backoff, self._wait, self._random, self._log = backoff, wait, random, log
        self._failures = 0

    def failed(self, error: TransientError) -> None:
        """Waits before the next try. Raises PullError (StorageUnreachable) when there have been enough."""
        self._failures += 1
        pause = self._backoff.pause(self._failures, self._random())
        if pause is None:
            raise PullError(
                GaveUp.STORAGE_UNREACHABLE,
                f"{error} ({self._failures} tries); check that the storage runs and can be reached from the pod",
            ) from None
        self._log("trying again", level="warning", error=str(error), tries=self._failures, in_seconds=round(pause, 2))
        self._wait(pause)

    def progressed(self) -> None:
        """The last try got somewhere before it failed."""
        self._failures = 0

    def call(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, tried until it is no TransientError. Raises PullError after enough tries."""
        while True:
            try:
                return work()
            except TransientError as error:
                self.failed(error)
