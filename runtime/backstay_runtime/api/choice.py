"""One choice of an answer, token by token: its text, its log-probabilities and its end. Pure."""

from dataclasses import dataclass
from typing import Protocol

from backstay_contract.output import Fallback, OutputRule

from backstay_runtime.engine import Finish, Output
from backstay_runtime.sampling.params import TokenLogprob
from backstay_runtime.text.detokenizer import Detokenizer
from backstay_runtime.text.rules import Finding, broken
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
    begins: bool = False
    """It is written again: what came before is void."""
    broke: Finding | None = None
    """The output rule that the choice's text breaks."""


class Choice:
    """Text that only grows: never half a character, nothing of a stop string."""

    def __init__(
        self, texts: Texts, stops: tuple[str, ...], offset: int = 0, rules: tuple[OutputRule, ...] = ()
    ) -> None:
        """`offset`: characters that stand before the generated text."""
        self._begun = (texts, stops, offset, rules)
        self._rules = rules
        self._shown = ""
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
        broke = self._check(text) if self._rules else None
        if broke is not None:  # what was shown before cannot be taken back
            text = text[: max(0, broke.sound - len(self._shown) + len(text))]
        return Piece(text, entries, 1, self.finish, output.prompt_logprobs, broke=broke)

    def again(self) -> "Choice":
        """The same choice before its first token."""
        return Choice(*self._begun)

    def _check(self, text: str) -> Finding | None:
        seen = len(self._shown)
        self._shown += text
        broke = broken(self._rules, self._shown, whole=self.finish is not None, seen=seen)
        if broke is not None:
            cut = broke.rule.fallback is Fallback.TRUNCATE
            self.finish = Finish.RULE if cut else Finish.REFUSED
        return broke

    def _show(self, token: int, finish: Finish | None) -> str:
        # The token that ends a text is no part of it.
        settled = "" if finish is Finish.STOP else self._detokenizer.push(token)
        if finish is not None:
            settled += self._detokenizer.flush()
        self._settled += len(settled)
        shown = self._stops.push(settled)
        return shown + self._stops.flush() if finish is not None else shown
