"""Answers, sights and records for the tests, named after their situation."""

from typing import Any

from tests.e2e.story.answers import Answer
from tests.e2e.story.history import Seen

OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64
HEX_OLD, HEX_NEW = "a" * 64, "b" * 64


def answer(sent: float, ms: float = 100.0, **fields: Any) -> Answer:
    whole: dict[str, Any] = {"kind": "new", "number": 0, "status": 200, "digest": OLD, "error": None}
    return Answer(**{**whole, **fields, "sent": sent, "ms": ms})


def steady(since: float, until: float, rate: float = 1.0, **fields: Any) -> list[Answer]:
    count = int((until - since) * rate)
    return [answer(since + number / rate, number=number, **fields) for number in range(count)]


def refused(sent: float, **fields: Any) -> Answer:
    return answer(sent, ms=1.0, **{"status": None, "digest": None, "error": "ConnectionRefusedError", **fields})


def service(at: float, colour: str) -> Seen:
    return Seen(at, {"spec": {"selector": {"backstay.dev/colour": colour}}})


def resource(at: float, phase: str, **status: Any) -> Seen:
    return Seen(at, {"status": {"phase": phase, **status}})


def attempt(version: str, colour: str, *, ended: bool = False, outcome: str | None = None) -> dict[str, Any]:
    base: dict[str, Any] = {"version": version, "colour": colour}
    return {**base, "endedAt": "2026-01-01T00:00:00Z", "outcome": outcome} if ended else base
