"""One choice of an answer, token by token: its text, its log-probabilities and its end. Pure."""

from dataclasses import dataclass
from typing import Protocol

from backstay_runtime.engine import Finish, Output
from backstay_runtime.sampling.params import TokenLogprob
from backstay_runtime.text.detokenizer import Detokenizer
from backstay_runtime.text.stops import StopStrings


class Texts(Protocol):
    """What a choice needs of a tokenizer."""

    def decode(self, ids: list[int], *, skip_special: bool = True) -> str: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """Log-probabilities at one position, and where its token's text begins, in characters of the choice's text."""

    logprob: TokenLogprob
    offset: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What one token adds to a choice."""

    text: str = ""
    entries: tuple[Entry, ...] = ()
    tokens: int = 0
    finish: Finish | None = None
    prompt_logprobs: tuple[TokenLogprob, ...] | None = None


class Choice:
    """Text that only grows: never half a character, nothing of a stop string."""

    def __init__(self, texts: Texts, stops: tuple[str, ...], offset: int = 0) -> None:
        """`offset`: characters that stand before the generated text."""
        self._detokenizer = Detokenizer(texts.decode)
        self._stops = StopStrings(stops)
        self._settled = offset
        self.finish: Finish | None = None

    def feed(self, output: Output) -> Piece:
        """What the output adds. After the end it adds nothing."""
        if self.finish is not None:
            return Piece()
        if output.token is None:
            self.finish = output.finish
            return Piece(finish=output.finish)
        entries = () if output.logprob is None else (Entry(output.logprob, self._settled),)
        text = self._show(output.token, output.finish)
        self.finish = Finish.STOP if self._stops.stopped else output.finish
        return Piece(text, entries, 1, self.finish, output.prompt_logprobs)

    def _show(self, token: int, finish: Finish | None) -> str:
        # The token that ends a text is no part of it.
        settled = "" if finish is Finish.STOP else self._detokenizer.push(token)
        if finish is not None:
            settled += self._detokenizer.flush()
        self._settled += len(settled)
        shown = self._stops.push(settled)
        return shown + self._stops.flush() if finish is not None else shown
