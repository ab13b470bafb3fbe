"""What the users of a benchmark ask: lengths as real queries have them. Pure: the randomness is an argument."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

TEXT = (
    "the ship holds its course while wind and rain go over the deck and nobody sleeps before the harbour comes into "
    "sight because a rope that breaks at night is found by hand and eye alone"
)
WORDS = TEXT.split()
CODE = (
    "def total(items):",
    "    result = 0",
    "    for item in items:",
    "        if item is not None:",
    "            result += item.value",
    "    return result",
)


class Kind(NamedTuple):
    """A class of questions."""

    name: str
    share: float
    """Of all requests."""
    low: int
    high: int
    """Tokens of the question, about."""
    answer: int
    """Tokens of the answer."""
    code: bool = False


KINDS: Sequence[Kind] = (
    Kind("short", 0.2, 3, 10, 16),
    Kind("medium", 0.5, 10, 100, 64),
    Kind("long", 0.3, 100, 500, 128, code=True),
)
DESCRIPTION = ", ".join(f"{kind.share:.0%} {kind.name} ({kind.low}-{kind.high} -> {kind.answer})" for kind in KINDS)


class Question(NamedTuple):
    """One request."""

    kind: str
    prompt: str
    max_tokens: int


class Scale(NamedTuple):
    """What a model makes of characters, and how much it takes."""

    tokens_per_character: float = 0.25
    longest: int | None = None
    """Tokens of question and answer together."""


SAMPLE = " ".join([TEXT, *CODE])
"""A text like the questions: what a model makes of it is its scale."""


def question(random: Random, scale: Scale) -> Question:
    """The next question, cut to what the model takes."""
    kind = random.choices(KINDS, [kind.share for kind in KINDS])[0]
    tokens, answer = random.randint(kind.low, kind.high), kind.answer
    if scale.longest is not None:
        answer = min(answer, max(1, scale.longest // 4))
        tokens = min(tokens, max(1, scale.longest // 2 - answer))
    length = max(1, int(tokens / scale.tokens_per_character))
    return Question(kind.name, _code(random, length) if kind.code else _prose(random, length), answer)


def _prose(random: Random, length: int) -> str:
    words = [random.choice(WORDS) for _ in range(1 + length // 2)]
    return " ".join(words)[:length]


def _code(random: Random, length: int) -> str:
    start = random.randrange(len(CODE))
    lines = [CODE[(start + number) % len(CODE)] for number in range(1 + length // 8)]
    return "\n".join(lines)[:length]
