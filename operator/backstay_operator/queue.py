"""The work queue: which resource is looked at next, and when.

One pass per key at a time; a key that is added while its pass runs gets another pass afterwards; adds of a waiting key
become one. `Schedule` is the bookkeeping, with time as an argument; `WorkQueue` runs it.
"""

import asyncio
import heapq
import itertools
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

BACKOFF_FIRST_SECONDS = 0.5
BACKOFF_MOST_SECONDS = 60.0


K = TypeVar("K", bound=Hashable)


class Key(NamedTuple):
    """A resource."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def backoff_seconds(failures: int, chance: float) -> float:
    """Wait before the next try after so many failures in a row (from 1 on); `chance` in [0, 1) is the jitter.

    Doubles from 0.5 s to 60 s, then takes between half and all of it, so that many resources do not come back at once.
    """
    most = min(BACKOFF_MOST_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(failures - 1, 32))
    return most * (0.5 + chance / 2)


class Schedule(Generic[K]):
    """Due times of keys. Invariant: a key is waiting at most once, and never running twice."""

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._running: set[K] = set()
        self._failures: dict[K, int] = {}

    def add(self, key: K, due: float) -> None:
        """The key shall get a pass at that time or sooner."""
        if key not in self._due or due < self._due[key]:
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._order), key))

    def take(self, now: float) -> K | None:
        """The key that has waited longest for a pass due now and is not running; it runs from here on."""
        later: list[tuple[float, int, K]] = []
        taken: K | None = None
        while taken is None and self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            due, _, key = entry
            if self._due.get(key) != due:
                continue  # replaced by a sooner one, or taken
            if key in self._running:
                later.append(entry)
            else:
                taken = key
        for entry in later:
            heapq.heappush(self._heap, entry)
        if taken is not None:
            del self._due[taken]
            self._running.add(taken)
        return taken

    def finish(self, key: K, *, failed: bool, again: float | None, now: float, chance: float) -> None:
        """The key's pass is over. `again`: seconds until the next one, if one is wanted."""
        self._running.discard(key)
        if failed:
            self._failures[key] = self._failures.get(key, 0) + 1
            self.add(key, now + backoff_seconds(self._failures[key], chance))
            return
        self._failures.pop(key, None)
        if again is not None:
            self.add(key, now + max(0.0, again))

    def next_due(self) -> float | None:
        """The earliest time at which a key that is not running is due."""
        return min((due for key, due in self._due.items() if key not in self._running), default=None)

    def failures(self, key: K) -> int:
        """Passes of the key that failed in a row."""
        return self._failures.get(key, 0)

    def __len__(self) -> int:
        """Keys that wait."""
        return len(self._due)


class WorkQueue(Generic[K]):
    """Runs passes, a bounded number at a time, until it is cancelled.

    `work` does one pass and says in how many seconds the next is wanted; it raises if it must be tried again.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[float | None]],
        on_failure: Callable[[K, Exception, int], None],
        *,
        workers: int = 8,
        clock: Callable[[], float] | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._work = work
        self._on_failure = on_failure
        self._workers = workers
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._chance = chance
        self._schedule: Schedule[K] = Schedule()
        self._changed = asyncio.Event()
        self._active = 0

    def add(self, key: K, after: float = 0.0) -> None:
        """A pass for the key in so many seconds, or sooner if one is due sooner."""
        self._schedule.add(key, self._clock() + after)
        self._changed.set()

    def __len__(self) -> int:
        return len(self._schedule)

    async def run(self) -> None:
        """Works for ever. On cancellation the passes that run are cancelled, too."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                while self._active < self._workers and (key := self._schedule.take(self._clock())) is not None:
                    self._active += 1
                    group.create_task(self._one(key), name=f"pass {key}")
                await self._wait(full=self._active >= self._workers)

    async def _wait(self, *, full: bool) -> None:
        due = None if full else self._schedule.next_due()
        seconds = None if due is None else max(0.0, due - self._clock())
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _one(self, key: K) -> None:
        failed, again = False, None
        try:
            again = await self._work(key)
        except Exception as error:  # any defect of one resource's pass must leave the others' alone
            failed = True
            self._on_failure(key, error, self._schedule.failures(key) + 1)
        finally:
            self._active -= 1
            self._schedule.finish(key, failed=failed, again=again, now=self._clock(), chance=self._chance())
            self._changed.set()
