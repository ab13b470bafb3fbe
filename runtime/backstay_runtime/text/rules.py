"""Whether a text breaks one of the rules that answers are held against. Pure."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from backstay_contract.output import OutputCheck, OutputRule

LONGEST_PASSAGE = 256
"""Characters of a passage whose repetition is looked for."""
LEAST_REPEATED = 64
"""Characters that the repetition spans at least: a line of dashes is no loop."""
DEFAULT_TIMES = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule."""

    rule: OutputRule
    sound: int
    """Characters before what is wrong."""


def broken(rules: Sequence[OutputRule], text: str, *, whole: bool, seen: int = 0) -> Finding | None:
    """The first rule that the text breaks.

    `whole`: it does not go on, so it may be called empty. `seen`: characters that were found sound before.
    """
    for rule in rules:
        sound = _sound(rule, text, whole=whole, seen=seen)
        if sound is not None:
            return Finding(rule, sound)
    return None


def _sound(rule: OutputRule, text: str, *, whole: bool, seen: int) -> int | None:
    match rule.rule:
        case OutputCheck.LENGTH:
            most = rule.most if rule.most is not None else len(text)
            return most if len(text) > most else None
        case OutputCheck.EMPTY:
            return 0 if whole and not text.strip() else None
        case OutputCheck.ILLEGAL_CHARACTERS:
            return next((place for place in range(seen, len(text)) if _illegal(text[place])), None)
        case OutputCheck.REPETITION:
            return _before_loop(text, rule.most or DEFAULT_TIMES)


def _illegal(character: str) -> bool:
    if character in "\n\r\t":
        return False
    # Control characters, halves of surrogate pairs, unassigned code points; U+FFFD is what broken bytes become.
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cs", "Cn")


def _before_loop(text: str, times: int) -> int | None:
    """Where the first of `times` or more equal passages at the end is over; None where there is no such loop."""
    for length in range(1, min(LONGEST_PASSAGE, len(text) // times) + 1):
        repeats = max(times, -(-LEAST_REPEATED // length))
        spanned = length * repeats
        if spanned > len(text):
            continue
        passage = text[-length:]
        if text.endswith(passage * repeats):
            start = len(text) - spanned
            while start >= length and text[start - length : start] == passage:
                start -= length
            return start + length
    return None
