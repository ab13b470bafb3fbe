"""How far a pull is: counters that many threads add to, and a log line now and then."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from backstay_runtime.pull.log import Log

EVERY_SECONDS = 2.0


class Counts(NamedTuple):
    """Bytes of a pull."""

    total: int
    """Of the model."""
    resumed: int
    """Found on disk from an earlier try."""
    fetched: int
    """Come over the network in this try."""


class Report(NamedTuple):
    """What a progress line says."""

    bytes_done: int
    bytes_total: int
    mb_per_second: float
    """10^6 bytes per second of this try."""
    seconds_left: float | None


def report(counts: Counts, seconds: float) -> Report:
    """The progress after so many seconds. Pure."""
    rate = counts.fetched / seconds if seconds > 0 else 0.0
    done = min(counts.total, counts.resumed + counts.fetched)
    left = round((counts.total - done) / rate, 1) if rate > 0 else None
    return Report(done, counts.total, round(rate / 1e6, 1), left)


class Progress:
    """Counts bytes and, while entered, logs them every few seconds from a thread of its own."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._lock = threading.Lock()
        self._counts = Counts(0, 0, 0)
        self._ended = threading.Event()
        self._began = clock()
        self._thread = threading.Thread(target=self._tell, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._began = self._clock()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def counts(self) -> Counts:
        with self._lock:
            return self._counts

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    def expect(self, total: int, resumed: int) -> None:
        """The bytes of the model, and those that are here already."""
        with self._lock:
            self._counts = self._counts._replace(total=total, resumed=resumed)

    def fetched(self, count: int) -> None:
        """So many more bytes came over the network."""
        with self._lock:
            self._counts = self._counts._replace(fetched=self._counts.fetched + count)

    def _tell(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            now = report(self.counts, self.seconds)
            self._log(
                "pulling",
                bytes=now.bytes_done,
                bytes_total=now.bytes_total,
                mb_per_second=now.mb_per_second,
                seconds_left=now.seconds_left,
            )
