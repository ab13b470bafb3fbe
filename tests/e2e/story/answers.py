"""What the load's lines say. Pure."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One request of the load. Times are Unix seconds of the node's clock."""

    kind: str
    """`new`: on a connection of its own; `kept`: on a connection that is kept and used again."""
    number: int
    """Counts the requests of its kind from 0: a hole means that a line was lost, not that a request was."""
    sent: float
    ms: float
    status: int | None
    """HTTP status; None where no answer came."""
    digest: str | None
    """Digest of the model that answered."""
    error: str | None
    connection: int | None = None
    path: str = ""

    @property
    def ended(self) -> float:
        return self.sent + self.ms / 1000

    @property
    def good(self) -> bool:
        return self.status == 200


def parse(text: str) -> list[Answer]:
    """The answers in the lines of one log, in the order of sending. A last line that was cut off is left out; any
    other line that is no answer raises ValueError, naming it."""
    lines = text.splitlines()
    answers = [_answer(line) for line in (lines if text.endswith("\n") else lines[:-1]) if line.strip()]
    return sorted(answers, key=lambda answer: answer.sent)


def _answer(line: str) -> Answer:
    try:
        read: dict[str, Any] = json.loads(line)
        return Answer(
            kind=str(read["kind"]),
            number=int(read["number"]),
            sent=float(read["sent"]),
            ms=float(read["ms"]),
            status=read["status"],
            digest=read["digest"],
            error=read["error"],
            connection=read.get("connection"),
            path=str(read.get("path", "")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not a line of the load ({type(error).__name__}: {error}): {line[:200]!r}") from None


def missing(answers: Iterable[Answer], kind: str, until: float) -> list[int]:
    """Numbers of that kind's requests sent before `until` that no line tells of."""
    told = {answer.number: answer.sent for answer in answers if answer.kind == kind}
    known_before = [number for number, sent in told.items() if sent < until]
    return sorted(set(range(max(known_before, default=-1) + 1)) - told.keys())


def of_kind(answers: Iterable[Answer], kind: str) -> list[Answer]:
    """The answers of that kind."""
    return [answer for answer in answers if answer.kind == kind]
