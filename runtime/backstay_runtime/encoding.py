"""The thread that runs an encoder over batches of texts, and the way of texts into it and of answers out of it."""

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence

import torch

from backstay_runtime.schedule.packing import Packer, Text

_log = logging.getLogger(__name__)

Encodes = Callable[[Sequence[Sequence[int]]], torch.Tensor]
"""[texts] of token ids -> [texts, numbers]."""

Told = Callable[[int, float], None]
"""Hears of each batch: its texts, and the seconds for which its oldest waited."""

_FAILURES_BEFORE_DEATH = 3
"""Batches in a row that may fail before the encoder is given up."""


class NotFiniteError(Exception):
    """The model's numbers for this text are not finite."""


class EncoderFullError(Exception):
    """As many texts wait as may."""

    def __init__(self, waiting: int, retry_after: int) -> None:
        super().__init__(f"{waiting} texts wait already")
        self.retry_after = retry_after
        """Seconds after which there should be room."""


class EncoderDeadError(Exception):
    """The encoder has stopped for good."""


class EncoderLoop:
    """Encodes while texts wait. Called on the event loop, except `_run` and what it calls."""

    def __init__(self, encode: Encodes, packer: Packer, *, queue_length: int, told: Told) -> None:
        self._encode = encode
        self._packer = packer
        self._queue_length = queue_length
        self._told = told
        self._events = asyncio.get_running_loop()
        self._wake = threading.Condition()
        self._futures: dict[int, tuple[Sequence[int], asyncio.Future[list[float]]]] = {}
        self._next = 0
        self._stopping = False
        self._busy_since: float | None = None
        self.dead: str | None = None
        """Why the thread has stopped, or None while it lives."""
        self._thread = threading.Thread(target=self._run, name="encoder", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, patience: float) -> bool:
        """Ends the thread after its present batch; False when that has not ended within `patience` seconds."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(patience)
        return not self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Texts that wait."""
        return len(self._packer)

    def stalled(self, now: float) -> float:
        """Seconds since the present batch began; 0 between batches."""
        since = self._busy_since
        return 0.0 if since is None else max(0.0, now - since)

    async def encode(self, texts: Sequence[Sequence[int]], *, probe: bool = False) -> list[list[float]]:
        """The numbers of each text, in order. Cancelling takes back those that wait.

        Raises EncoderFullError, EncoderDeadError or NotFiniteError. A probe is outside the limit.
        """
        futures = self._hand_in(texts, probe=probe)
        try:
            return await asyncio.gather(*futures.values())
        finally:
            with self._wake:
                self._packer.drop(list(futures))
                for number in futures:
                    self._futures.pop(number, None)

    def _hand_in(self, texts: Sequence[Sequence[int]], *, probe: bool) -> dict[int, asyncio.Future[list[float]]]:
        now, futures = time.monotonic(), {}
        with self._wake:
            if self.dead is not None:
                raise EncoderDeadError(self.dead)
            if not probe and len(self._packer) + len(texts) > self._queue_length:
                seconds = self._packer.backlog_seconds()
                raise EncoderFullError(len(self._packer), min(60, max(1, round(seconds))))
            for text in texts:
                number, self._next = self._next, self._next + 1
                futures[number] = self._events.create_future()
                self._futures[number] = (text, futures[number])
                self._packer.add(Text(len(text), number, now))
            self._wake.notify()
        return futures

    # On the encoder's thread.

    def _run(self) -> None:
        failures = 0
        while (batch := self._next_batch()) is not None:
            if not batch:
                continue
            began = self._busy_since = time.monotonic()
            waited = began - min(text.arrival for text, _, _ in batch)
            answers = self._computed([ids for _, ids, _ in batch])
            failures = failures + 1 if isinstance(answers, Exception) else 0
            self._busy_since = None
            width = max(text.tokens for text, _, _ in batch)
            if not isinstance(answers, Exception):
                with self._wake:
                    self._packer.cost.learn(width * len(batch), time.monotonic() - began)
            self._told(len(batch), waited)
            self._deliver([future for _, _, future in batch], answers)
            if failures >= _FAILURES_BEFORE_DEATH:
                self._die(f"{failures} batches in a row failed")
                return

    def _next_batch(self) -> list[tuple[Text, Sequence[int], "asyncio.Future[list[float]]"]] | None:
        """Waits until a batch should start; None: the thread should end."""
        with self._wake:
            while not self._stopping:
                at, now = self._packer.start_at(), time.monotonic()
                if at is not None and at <= now:
                    taken = [(text, self._futures.pop(text.number, None)) for text in self._packer.take()]
                    return [(text, *kept) for text, kept in taken if kept is not None]
                self._wake.wait(None if at is None else at - now)
        return None

    def _computed(self, texts: list[Sequence[int]]) -> list[list[float]] | Exception:
        try:
            with torch.inference_mode():
                rows: list[list[float]] = self._encode(texts).tolist()
                return rows
        except Exception as why:
            _log.exception("a batch of texts failed")
            return why

    def _deliver(
        self, futures: Sequence["asyncio.Future[list[float]]"], answers: Sequence[list[float]] | Exception
    ) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self._events.call_soon_threadsafe(_settle, futures, answers)

    def _die(self, why: str) -> None:
        _log.critical("the encoder is given up: %s", why)
        with self._wake:
            self.dead = why
            left = [future for _, future in self._futures.values()]
            self._futures.clear()
        self._deliver(left, EncoderDeadError(why))


def _settle(futures: Sequence["asyncio.Future[list[float]]"], answers: Sequence[list[float]] | Exception) -> None:
    for place, future in enumerate(futures):
        if future.done():
            continue
        if isinstance(answers, Exception):
            future.set_exception(answers)
        elif any(not math.isfinite(number) for number in answers[place]):
            future.set_exception(NotFiniteError("the model's numbers for this text are not finite"))
        else:
            future.set_result(answers[place])
