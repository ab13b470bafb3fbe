"""One request inside the engine: hands in its sequences, takes out their pieces, leaves nothing behind."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from backstay_contract.output import Fallback, OutputRule

from backstay_runtime.api import errors
from backstay_runtime.api.choice import Choice, Piece
from backstay_runtime.api.errors import ApiError
from backstay_runtime.api.record import Record
from backstay_runtime.api.service import Loaded, Service
from backstay_runtime.engine import Finish
from backstay_runtime.loop import Delivery, EngineDeadError, Ticket, Wish
from backstay_runtime.schedule.admission import QueueFullError
from backstay_runtime.telemetry.tracker import Tracker
from backstay_runtime.text.rules import Finding

_PATIENCE = 2.0
"""Seconds beyond the deadline after which an engine that says nothing is not waited for."""

Pieces = list[tuple[int, Piece]]
"""Index of a choice, and what it got."""


class Inside:
    """What every request has in common while it is in the engine: its way in, its deadline, its counts."""

    def __init__(self, service: Service, loaded: Loaded, record: Record, wishes: Sequence[Wish]) -> None:
        """Begins to count; the wishes are handed in by `submit`."""
        self._service = service
        self._loaded = loaded
        self._record = record
        self._deadline = max((wish.deadline or 0.0 for wish in wishes), default=0.0)
        self._wishes = wishes
        self._tracker: Tracker | None = None
        self._served = record.served = service.served_by(loaded)

    def submit(self, wishes: Sequence[Wish], deliveries: "asyncio.Queue[Delivery]", first: int = 0) -> list[Ticket]:
        """Hands in sequences, all or none; `first` is the index of the first. Raises ApiError 503 without room."""
        try:
            tickets = self._loaded.loop.submit(wishes, deliveries.put_nowait, first)
        except QueueFullError as why:
            raise ApiError(503, f"the queue is full: {why}", code="queue_full", retry_after=why.retry_after) from None
        except EngineDeadError as why:
            raise ApiError(503, f"the engine has stopped: {why}", code="engine_dead", retry_after=10) from None
        if self._tracker is None:  # only a request that was let in is counted
            self._tracker = self._begin()
        return tickets

    def _begin(self) -> Tracker:
        record, wishes = self._record, self._wishes
        record.prompt_tokens = sum(len(wish.prompt) for wish in wishes[:: max(1, _copies(wishes))])
        record.completion_tokens = 0
        most = sum(wish.params.max_tokens for wish in wishes)
        record.tracker = Tracker(self._served.metrics, record.arrival, most, record.prompt_tokens)
        return record.tracker

    async def next(self, deliveries: "asyncio.Queue[Delivery]") -> Delivery:
        """The next delivery. Raises ApiError when the engine says nothing in time."""
        left = self._deadline + _PATIENCE - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, left)):
                return await deliveries.get()
        except TimeoutError:
            raise failure(Finish.DEADLINE) from None

    def counts(self, delivery: Delivery) -> bool:
        """Counts a delivery; False where it only says that a sequence has started. Raises ApiError for a failed one."""
        output = delivery.output
        if self._tracker is None:
            raise RuntimeError("nothing was handed in")
        if output.started:
            self._tracker.started(delivery.at)
            return False
        if output.finish is not None and output.finish not in (Finish.STOP, Finish.LENGTH):
            raise failure(output.finish)
        return True

    def token(self, delivery: Delivery, tokens: int = 1) -> None:
        """A choice got tokens."""
        if self._tracker is not None and tokens:
            self._tracker.token(delivery.index, delivery.at)
            self._record.completion_tokens = (self._record.completion_tokens or 0) + tokens

    def served(self) -> None:
        """The answer is whole."""
        self._loaded.loop.served(time.monotonic() - self._record.arrival)


class Run:
    """Made once per request; `pieces` is read to its end or closed."""

    def __init__(
        self,
        service: Service,
        loaded: Loaded,
        record: Record,
        wishes: Sequence[Wish],
        choices: list[Choice],
        retries: int = 0,
    ) -> None:
        """One choice for each wish, in the same order. Raises ApiError 503 when there is no room.

        `retries`: times that a choice may be written again because it breaks an output rule.
        """
        self._metrics = service.served_by(loaded).metrics
        self._loaded = loaded
        self._wishes = wishes
        self._choices = choices
        self._retries = [retries] * len(choices)
        self._place = {index: index for index in range(len(choices))}
        """Index of a sequence -> its choice. One that is written again has a new index: what is late says nothing."""
        self._next_index = len(choices)
        self._inside = Inside(service, loaded, record, wishes)
        self._deliveries: asyncio.Queue[Delivery] = asyncio.Queue()
        self._tickets = self._inside.submit(wishes, self._deliveries)

    async def pieces(self) -> AsyncGenerator[Pieces, None]:
        """What the choices get, as it comes. Raises ApiError when one of them cannot be finished."""
        try:
            while any(choice.finish is None for choice in self._choices):
                batch = self._take(await self._inside.next(self._deliveries))
                if batch:
                    yield batch
            self._inside.served()
        finally:
            self._loaded.loop.abort(self._tickets)

    def _take(self, first: Delivery) -> Pieces:
        """Everything that has been delivered by now."""
        batch: Pieces = []
        delivery: Delivery | None = first
        while delivery is not None:
            place = self._place.get(delivery.index)
            piece = None if place is None else self._feed(place, delivery)
            if place is not None and piece is not None:
                batch.append((place, piece))
            delivery = None if self._deliveries.empty() else self._deliveries.get_nowait()
        return batch

    def _feed(self, place: int, delivery: Delivery) -> Piece | None:
        choice = self._choices[place]
        if choice.finish is not None and not delivery.output.started:
            return None
        if not self._inside.counts(delivery):
            return None
        piece = choice.feed(delivery.output)
        self._inside.token(delivery, piece.tokens)
        if piece.broke is not None:
            return self._after_rule(place, piece, piece.broke)
        if piece.finish is not None and delivery.output.finish is None:  # a stop string: the engine does not know of it
            self._loaded.loop.abort([self._tickets[place]])
        return piece

    def _after_rule(self, place: int, piece: Piece, broke: Finding) -> Piece:
        """Cuts the choice, writes it again, or raises ApiError."""
        rule, wish = broke.rule, self._wishes[place]
        self._metrics.count_rule(rule)
        self._loaded.loop.abort([self._tickets[place]])
        if rule.fallback is Fallback.TRUNCATE:
            return piece
        if rule.fallback is Fallback.ERROR or not self._retries[place] or wish.params.greedy:
            raise failure(Finish.REFUSED, rule)
        self._retries[place] -= 1
        seed = wish.params.seed
        params = replace(wish.params, seed=None if seed is None else f"{seed}/again{self._retries[place]}")
        (ticket,) = self._inside.submit([replace(wish, params=params)], self._deliveries, self._next_index)
        self._place = {index: known for index, known in self._place.items() if known != place}
        self._place[self._next_index] = place
        self._next_index += 1
        self._tickets[place], self._choices[place] = ticket, self._choices[place].again()
        return Piece(begins=True)


def _copies(wishes: Sequence[Wish]) -> int:
    """How many wishes in a row share one prompt."""
    first = wishes[0].prompt
    return sum(1 for wish in wishes if wish.prompt is first)


def failure(finish: Finish, rule: OutputRule | None = None) -> ApiError:
    """What a sequence that did not end well means for its request."""
    if rule is not None:
        said = f"the answer was refused by the output rule {rule.rule} with the fallback {rule.fallback}"
        return ApiError(500, said, code="output_refused")
    if finish is Finish.NON_FINITE:
        return ApiError(500, "the model's output for this request is not finite", code="non_finite_logits")
    if finish is Finish.DEADLINE:
        return ApiError(504, "the deadline passed before the answer was complete", code="deadline_exceeded")
    return errors.draining() if finish is Finish.CUT else errors.internal()
