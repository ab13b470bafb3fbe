"""The common way from sequences to an answer, whole or as a stream."""

import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from starlette.responses import JSONResponse, Response

from backstay_runtime.api import stream
from backstay_runtime.api.beaming import BeamRun, Search
from backstay_runtime.api.choice import Choice, Entry, Piece
from backstay_runtime.api.disconnect import unless_gone
from backstay_runtime.api.record import Record
from backstay_runtime.api.run import Pieces, Run
from backstay_runtime.api.schemas import Generation
from backstay_runtime.api.service import Loaded, Service
from backstay_runtime.engine import Finish
from backstay_runtime.loop import Wish
from backstay_runtime.sampling.params import TokenLogprob

MAX_RETRIES = 2
"""Times that a choice which breaks an output rule is written again."""


@dataclass(slots=True)
class Whole:
    """A finished choice."""

    text: str = ""
    entries: list[Entry] = field(default_factory=list)
    finish: Finish | None = None
    prompt_logprobs: tuple[TokenLogprob, ...] = ()

    def add(self, piece: Piece) -> None:
        """One more piece."""
        if piece.begins:
            self.text, self.entries = "", []
        self.text += piece.text
        if piece.broke is not None:
            self.text = self.text[: piece.broke.sound]
        self.entries.extend(piece.entries)
        self.finish = piece.finish or self.finish
        self.prompt_logprobs = piece.prompt_logprobs or self.prompt_logprobs


class Head:
    """What an answer and each of its chunks begin with."""

    def __init__(self, service: Service, prefix: str) -> None:
        self.id = f"{prefix}-{uuid.uuid4().hex}"
        self.created = int(time.time())
        self.model = service.identity.name

    def fields(self, kind: str) -> dict[str, Any]:
        """id, object, created, model."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def usage(record: Record) -> dict[str, int]:
    """Tokens read and written."""
    read, written = record.prompt_tokens or 0, record.completion_tokens or 0
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


@dataclass(frozen=True, slots=True)
class Work:
    """A request that is ready to run."""

    service: Service
    loaded: Loaded
    record: Record
    wishes: Sequence[Wish]
    choices: list[Choice]
    search: Search | None = None

    def run(self) -> Run | BeamRun:
        """Hands it to the engine. Raises ApiError 503 when there is no room."""
        if self.search is not None:
            return BeamRun(self.service, self.loaded, self.record, self.wishes, self.choices, self.search)
        retries = 0 if self.record.stream else MAX_RETRIES  # what was sent cannot be taken back
        return Run(self.service, self.loaded, self.record, self.wishes, self.choices, retries)


def search_of(asked: Generation) -> Search | None:
    """How the request wants to search; None where it samples."""
    return None if asked.num_beams is None else Search(asked.num_beams, asked.length_penalty)


async def answer_whole(
    request: Request, work: Work, body: Callable[[list[Whole], Mapping[str, int]], Mapping[str, Any]]
) -> Response:
    """Runs to the end and answers with `body` of the choices and the usage."""
    run = work.run()
    wholes = [Whole() for _ in work.choices]

    async def collect() -> None:
        async with aclosing(run.pieces()) as pieces:
            async for batch in pieces:
                for index, piece in batch:
                    wholes[index].add(piece)

    await unless_gone(request.receive, collect())
    work.record.reason = ",".join(sorted({str(whole.finish) for whole in wholes}))
    return JSONResponse(body(wholes, usage(work.record)))


async def answer_stream(
    request: Request,
    work: Work,
    events: Callable[[AsyncGenerator[Pieces, None]], AsyncGenerator[bytes, None]],
) -> Response:
    """Streams. What fails before the first token is an answer with its own status, not an event after a 200."""
    work.record.stream = True
    run = work.run()
    pieces = stream.gathered(run.pieces())
    first = await unless_gone(request.receive, _next(pieces))
    return stream.EventStream(_closing(events(_with_first(first, pieces)), pieces), work.record)


async def _next(pieces: AsyncGenerator[Pieces, None]) -> Pieces:
    return await anext(pieces)


async def _with_first(first: Pieces, rest: AsyncGenerator[Pieces, None]) -> AsyncGenerator[Pieces, None]:
    yield first
    async for batch in rest:
        yield batch


async def _closing(
    events: AsyncGenerator[bytes, None], pieces: AsyncGenerator[Pieces, None]
) -> AsyncGenerator[bytes, None]:
    """The events; when they end or are given up, the engine hears of it at once and not from the garbage collector."""
    try:
        async for one in events:
            yield one
        yield stream.DONE
    finally:
        await pieces.aclose()
