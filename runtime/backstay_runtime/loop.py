"""The thread that steps the engine, and the way of requests into it and of tokens out of it."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from backstay_runtime.engine import Engine, Finish, Output
from backstay_runtime.sampling.params import SamplingParams
from backstay_runtime.schedule.admission import Admission
from backstay_runtime.schedule.priority import Priority

_log = logging.getLogger(__name__)

_FAILURES_BEFORE_DEATH = 3
"""Steps in a row that may fail before the engine is given up: a broken device fails every step."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An output and when it came, in seconds of `time.monotonic`."""

    index: int
    """Which of the request's sequences it belongs to."""
    output: Output
    at: float


@dataclass(frozen=True, slots=True)
class Wish:
    """One sequence that a request asks for."""

    prompt: Sequence[int]
    params: SamplingParams
    arrival: float
    deadline: float | None = None
    probe: bool = False
    priority: Priority = Priority.NORMAL
    salt: str = ""


class Ticket:
    """One sequence inside the loop. Its deliveries go to its request's own queue and to nobody else's."""

    __slots__ = ("deliver", "index", "number", "wish")

    def __init__(self, wish: Wish, index: int, deliver: Callable[[Delivery], None]) -> None:
        self.wish = wish
        self.index = index
        self.deliver = deliver
        self.number: int | None = None


class Background(Protocol):
    """Work of no hurry that shares the engine's thread."""

    def pause(self, now: float, *, idle: bool) -> float | None:
        """Seconds until it may work; None: it has nothing to do. `idle`: nobody waits for the engine."""
        ...

    def work(self) -> None:
        """Does a little of it. Never raises."""
        ...


class EngineDeadError(Exception):
    """The engine has stopped for good."""


class EngineLoop:
    """Steps the engine while there is work.

    Called from the event loop's thread, except `_run` and what it calls. Deliveries come on the event loop.
    """

    def __init__(
        self,
        engine: Engine,
        admission: Admission,
        after_step: Callable[[Engine], None],
        background: Background | None = None,
    ) -> None:
        """`after_step` is called on the engine's thread after every step, to read gauges."""
        self._engine = engine
        self._admission = admission
        self._after_step = after_step
        self._background = background
        self._events = asyncio.get_running_loop()
        self._wake = threading.Condition()
        self._arrived: deque[Ticket] = deque()
        self._gone: deque[Ticket] = deque()
        self._inside: dict[int, Ticket] = {}
        self._open: set[Ticket] = set()
        self._stopping = False
        self._cutting = False
        self._busy_since: float | None = None
        self._last_token: float | None = None
        self.dead: str | None = None
        """Why the engine has stopped, or None while it lives."""
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, patience: float) -> bool:
        """Ends the thread after its present step; whatever is still open gets no more deliveries.

        False when the step has not ended within `patience` seconds.
        """
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(patience)
        return not self._thread.is_alive()

    @property
    def open(self) -> int:
        """Sequences that wait or run, probes apart."""
        return len(self._open)

    def stalled(self, now: float) -> float:
        """Seconds since the engine last finished a step although it had work; 0 when it has none."""
        since = self._busy_since
        return 0.0 if since is None else max(0.0, now - since)

    def since_token(self, now: float) -> float:
        """Seconds since the model last gave a token, a probe's included; infinite before the first."""
        return float("inf") if self._last_token is None else max(0.0, now - self._last_token)

    def submit(self, wishes: Sequence[Wish], deliver: Callable[[Delivery], None], first: int = 0) -> list[Ticket]:
        """Hands over a request's sequences, all or none; `first` is the index of the first of them.

        Raises QueueFullError or EngineDeadError.
        """
        counted = sum(not wish.probe for wish in wishes)
        if counted:
            self._admission.check(len(self._open), counted)
        tickets = [Ticket(wish, index, deliver) for index, wish in enumerate(wishes, start=first)]
        with self._wake:
            if self.dead is not None:
                raise EngineDeadError(self.dead)
            self._arrived.extend(tickets)
            self._wake.notify()
        self._open.update(ticket for ticket in tickets if not ticket.wish.probe)
        return tickets

    def abort(self, tickets: Sequence[Ticket]) -> None:
        """Ends sequences before the next step; those that have ended are left alone."""
        self._open.difference_update(tickets)
        with self._wake:
            self._gone.extend(tickets)
            self._wake.notify()

    def cut(self) -> None:
        """Ends every sequence with an output that says so, before the next step."""
        with self._wake:
            self._cutting = True
            self._wake.notify()

    def served(self, seconds: float) -> None:
        """Tells how long a request took, for the Retry-After of refused ones."""
        self._admission.served(seconds)

    # On the engine's thread.

    def _run(self) -> None:
        failures = 0
        while self._take_in():
            self._busy_since = began = time.monotonic()
            try:
                outputs = self._engine.step(began)
                failures = 0
            except torch.OutOfMemoryError as why:
                outputs = self._shed(why)
            except Exception:
                _log.exception("a step of the engine failed")
                outputs, failures = self._end_all(Finish.ERROR), failures + 1
            if failures >= _FAILURES_BEFORE_DEATH:
                self._die(f"{failures} steps in a row failed")
            self._deliver(outputs, began)
            self._after_step(self._engine)
            if self.dead is not None:
                break
            self._wait_for_batch()
            if self._background is not None and self._background.pause(time.monotonic(), idle=False) == 0:
                self._background.work()
        self._busy_since = None

    def _wait_for_batch(self) -> None:
        """While a batch fills there is nothing to step."""
        with self._wake:
            if self._engine.wait and not (self._arrived or self._gone or self._stopping or self._cutting):
                self._busy_since = None
                self._wake.wait(self._engine.wait)

    def _die(self, why: str) -> None:
        _log.critical("the engine is given up: %s", why)
        with self._wake:
            self.dead = why
            late = list(self._arrived)
            self._arrived.clear()
        self._refuse(late)

    def _take_in(self) -> bool:
        """Adds and removes what has come, waiting while there is no work. False: the thread should end."""
        self._idle()
        with self._wake:
            if self._stopping:
                return False
            arrived = list(self._arrived)
            self._arrived.clear()
            cutting, self._cutting = self._cutting, False
        for ticket in arrived:
            self._add(ticket)
        with self._wake:
            self._forget_gone()
        if cutting:
            self._deliver(self._end_all(Finish.CUT))
        return True

    def _idle(self) -> None:
        """Returns when there is work. Until then the background has the thread, a little at a time."""
        while True:
            with self._wake:
                pause = None if self._background is None else self._background.pause(time.monotonic(), idle=True)
                if not self._engine.idle or self._arrived or self._stopping or self._cutting:
                    return
                self._forget_gone()
                self._busy_since = None
                self._after_step(self._engine)
                if pause != 0:
                    self._wake.wait(pause)
                    continue
            if self._background is not None:
                self._background.work()

    def _add(self, ticket: Ticket) -> None:
        wish = ticket.wish
        try:
            ticket.number = self._engine.add(
                wish.prompt,
                wish.params,
                arrival=wish.arrival,
                deadline=wish.deadline,
                probe=wish.probe,
                priority=wish.priority,
                salt=wish.salt,
            )
        except ValueError:
            _log.exception("the engine refused a prompt that had been checked")
            self._refuse([ticket])
            return
        self._inside[ticket.number] = ticket

    def _refuse(self, tickets: Sequence[Ticket]) -> None:
        failed = Output(number=-1, finish=Finish.ERROR)
        batch = [(ticket, Delivery(ticket.index, failed, time.monotonic())) for ticket in tickets]
        self._events.call_soon_threadsafe(self._hand_out, batch)

    def _forget_gone(self) -> None:
        while self._gone:
            ticket = self._gone.popleft()
            if ticket.number is None:
                if ticket in self._arrived:
                    self._arrived.remove(ticket)
            elif self._inside.pop(ticket.number, None) is not None:
                self._engine.abort(ticket.number)

    def _shed(self, why: torch.OutOfMemoryError) -> list[Output]:
        _log.error("out of device memory, the newest sequence is given up: %s", why)
        torch.cuda.empty_cache()
        shed = self._engine.shed_newest()
        return [] if shed is None else [shed]

    def _end_all(self, finish: Finish) -> list[Output]:
        return [Output(number=number, finish=finish) for number in self._engine.abort_all()]

    def _deliver(self, outputs: list[Output], began: float | None = None) -> None:
        """Hands outputs out; `began` is when their step did, which is when sequences started in it left the queue."""
        now = time.monotonic()
        batch = []
        for output in outputs:
            ticket = self._inside.get(output.number)
            if ticket is None:
                continue
            if output.token is not None:
                self._last_token = now
            if output.finish is not None:
                del self._inside[output.number]
            at = began if output.started and began is not None else now
            batch.append((ticket, Delivery(ticket.index, output, at)))
        if batch:
            self._events.call_soon_threadsafe(self._hand_out, batch)

    # On the event loop again.

    def _hand_out(self, batch: list[tuple[Ticket, Delivery]]) -> None:
        for ticket, delivery in batch:
            if delivery.output.finish is not None:
                self._open.discard(ticket)
            ticket.deliver(delivery)
