"""Beam search as a client of the engine: every step asks for one more token of each beam.

What the beams have in common is in the prefix cache, so that a step computes at most a block for each of them.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace

from backstay_runtime.api.choice import Choice
from backstay_runtime.api.record import Record
from backstay_runtime.api.run import Inside, Pieces
from backstay_runtime.api.service import Loaded, Service
from backstay_runtime.engine import Finish, Output
from backstay_runtime.loop import Delivery, Wish
from backstay_runtime.sampling.beams import Beam, Beams
from backstay_runtime.sampling.params import SamplingParams


@dataclass(frozen=True, slots=True)
class Search:
    """How a request wants to search."""

    width: int
    penalty: float


class BeamRun:
    """One request that searches; `pieces` is read to its end or closed."""

    def __init__(
        self,
        service: Service,
        loaded: Loaded,
        record: Record,
        wishes: Sequence[Wish],
        choices: list[Choice],
        search: Search,
    ) -> None:
        """As for `Run`: one choice for each wish; the wishes of one prompt stand side by side and share it."""
        self._loaded = loaded
        self._wishes = wishes
        self._choices = choices
        self._search = search
        self._inside = Inside(service, loaded, record, wishes)

    async def pieces(self) -> AsyncGenerator[Pieces, None]:
        """The texts of a prompt's choices as soon as they are known. Raises ApiError when a step cannot be made."""
        at = 0
        while at < len(self._wishes):
            wish = self._wishes[at]
            texts = sum(1 for other in self._wishes[at:] if other.prompt is wish.prompt)
            longest = wish.params.max_tokens
            beams = await self._grown(wish, longest)
            for offset, beam in enumerate(beams.best(texts, self._search.penalty, longest)):
                yield [(at + offset, self._choices[at + offset].feed(output)) for output in _outputs(beam)]
            at += texts
        self._inside.served()

    async def _grown(self, wish: Wish, longest: int) -> Beams:
        beams, width, eos = Beams(), self._search.width, self._loaded.eos
        params = SamplingParams(max_tokens=1, temperature=0.0, logprobs=2 * width + len(eos), ignore_eos=True)
        while not beams.over(width=width, longest=longest):
            asked = [replace(wish, prompt=[*wish.prompt, *beam.tokens], params=params) for beam in beams.live]
            tables = await self._next(asked)
            beams = beams.grow(tables, width=width, eos=eos, penalty=self._search.penalty)
        return beams

    async def _next(self, wishes: Sequence[Wish]) -> list[tuple[tuple[int, float], ...]]:
        deliveries: asyncio.Queue[Delivery] = asyncio.Queue()
        tickets = self._inside.submit(wishes, deliveries)
        tables: dict[int, tuple[tuple[int, float], ...]] = {}
        try:
            while len(tables) < len(wishes):
                delivery = await self._inside.next(deliveries)
                if self._inside.counts(delivery) and delivery.output.logprob is not None:
                    tables[delivery.index] = delivery.output.logprob.top
                    self._inside.token(delivery)
        finally:
            self._loaded.loop.abort(tickets)
        return [tables[index] for index in range(len(wishes))]


def _outputs(beam: Beam) -> list[Output]:
    last = len(beam.tokens) - 1
    end = Finish.STOP if beam.stopped else Finish.LENGTH
    return [
        Output(number=-1, token=token, finish=end if place == last else None) for place, token in enumerate(beam.tokens)
    ]
