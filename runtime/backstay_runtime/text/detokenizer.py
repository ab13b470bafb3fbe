"""Tokens to text, one after another, never half a character. Pure but for the decoder it is given."""

from collections.abc import Callable

BROKEN = "\ufffd"

_LONGEST_HOLD = 64
"""Tokens after which bytes that make no character are given up on; a character has at most 4 bytes."""

Decode = Callable[[list[int]], str]


class Detokenizer:
    """Turns a growing list of ids into a growing text.

    ids[start:end] were part of the last text given out and ids[end:] are held. Decoding starts at `start`, so a
    decoder that treats the beginning of a text in a special way does so only once, and each step's work is bounded.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._start = 0
        self._end = 0

    def push(self, token: int) -> str:
        """The text that is settled by one more token; empty while a character is incomplete."""
        self._ids.append(token)
        before, now = self._texts()
        held = len(self._ids) - self._end
        if held < _LONGEST_HOLD and (len(now) <= len(before) or now.endswith(BROKEN)):
            return ""
        self._start, self._end = self._end, len(self._ids)
        return now[len(before) :]

    def flush(self) -> str:
        """What is still held when no token follows: U+FFFD for the bytes of a cut character."""
        before, now = self._texts()
        self._start = self._end = len(self._ids)
        return now[len(before) :]

    def _texts(self) -> tuple[str, str]:
        window = self._ids[self._start :]
        return self._decode(window[: self._end - self._start]), self._decode(window)
