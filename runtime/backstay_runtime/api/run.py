"""One request inside the engine: hands in its sequences, takes out their pieces, leaves nothing behind."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence

from backstay_runtime.api import errors
from backstay_runtime.api.choice import Choice, Piece
from backstay_runtime.api.errors import ApiError
from backstay_runtime.api.record import Record
from backstay_runtime.api.service import Loaded, Service
from backstay_runtime.engine import Finish
from backstay_runtime.loop import Delivery, EngineDeadError, Wish
from backstay_runtime.schedule.admission import QueueFullError
from backstay_runtime.telemetry.tracker import Tracker

_PATIENCE = 2.0
"""Seconds beyond the deadline after which an engine that says nothing is not waited for."""

Pieces = list[tuple[int, Piece]]
"""Index of a choice, and what it got."""


class Run:
    """Made once per request; `pieces` is read to its end or closed."""

    def __init__(
        self, service: Service, loaded: Loaded, record: Record, wishes: Sequence[Wish], choices: list[Choice]
    ) -> None:
        """One choice for each wish, in the same order. Raises ApiError 503 when there is no room."""
        self._loaded = loaded
        self._choices = choices
        self._deliveries: asyncio.Queue[Delivery] = asyncio.Queue()
        self._record = record
        self._deadline = max((wish.deadline or 0.0 for wish in wishes), default=0.0)
        try:
            self._tickets = loaded.loop.submit(wishes, self._deliveries.put_nowait)
        except QueueFullError as why:
            raise ApiError(503, f"the queue is full: {why}", code="queue_full", retry_after=why.retry_after) from None
        except EngineDeadError as why:
            raise ApiError(503, f"the engine has stopped: {why}", code="engine_dead", retry_after=10) from None
        record.prompt_tokens = sum(len(wish.prompt) for wish in wishes[:: max(1, _copies(wishes))])
        record.completion_tokens = 0
        most = sum(wish.params.max_tokens for wish in wishes)
        self._tracker = Tracker(service.metrics, record.arrival, most, record.prompt_tokens)
        record.tracker = self._tracker

    async def pieces(self) -> AsyncGenerator[Pieces, None]:
        """What the choices get, as it comes. Raises ApiError when one of them cannot be finished."""
        try:
            while any(choice.finish is None for choice in self._choices):
                batch = self._take(await self._next())
                if batch:
                    yield batch
            self._loaded.loop.served(time.monotonic() - self._record.arrival)
        finally:
            self._loaded.loop.abort(self._tickets)

    async def _next(self) -> Delivery:
        left = self._deadline + _PATIENCE - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, left)):
                return await self._deliveries.get()
        except TimeoutError:
            raise _failure(Finish.DEADLINE) from None

    def _take(self, first: Delivery) -> Pieces:
        """Everything that has been delivered by now."""
        batch: Pieces = []
        delivery: Delivery | None = first
        while delivery is not None:
            piece = self._feed(delivery)
            if piece is not None:
                batch.append((delivery.index, piece))
            delivery = None if self._deliveries.empty() else self._deliveries.get_nowait()
        return batch

    def _feed(self, delivery: Delivery) -> Piece | None:
        output = delivery.output
        if output.started:
            self._tracker.started(delivery.at)
            return None
        choice = self._choices[delivery.index]
        if choice.finish is not None:
            return None
        piece = choice.feed(output)
        if piece.tokens:
            self._tracker.token(delivery.index, delivery.at)
            self._record.completion_tokens = (self._record.completion_tokens or 0) + piece.tokens
        if piece.finish is not None and piece.finish not in (Finish.STOP, Finish.LENGTH):
            raise _failure(piece.finish)
        if piece.finish is not None and output.finish is None:  # a stop string: the engine does not know of it
            self._loaded.loop.abort([self._tickets[delivery.index]])
        return piece


def _copies(wishes: Sequence[Wish]) -> int:
    """How many wishes in a row share one prompt."""
    first = wishes[0].prompt
    return sum(1 for wish in wishes if wish.prompt is first)


def _failure(finish: Finish) -> ApiError:
    if finish is Finish.NON_FINITE:
        return ApiError(500, "the model's output for this request is not finite", code="non_finite_logits")
    if finish is Finish.DEADLINE:
        return ApiError(504, "the deadline passed before the answer was complete", code="deadline_exceeded")
    return errors.draining() if finish is Finish.CUT else errors.internal()
