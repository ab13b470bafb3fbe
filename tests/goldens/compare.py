"""Whether an answer is the reference answer, as far as a comparison is fair. Pure.

The reference files explain their own fields under `conventions`. Two implementations of the same model round
differently, so where the two likeliest tokens are nearly tied, either of them is right, and everything after it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BROKEN = "\ufffd"

Json = Mapping[str, Any]


class DifferentError(Exception):
    """The answer is wrong; the message shows where."""


class NotComparableError(Exception):
    """The reference has nothing that could be compared."""


@dataclass(frozen=True)
class Tolerance:
    """How much may differ."""

    margin: float = 0.05
    """Logits; two tokens closer than this are tied."""
    logprob: float = 0.01
    nll: float = 0.002
    """Of a text's mean."""


@dataclass(frozen=True)
class Answered:
    """What a server said; None where it does not say it."""

    text: str
    finish: str | None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def check_answer(case: Json, answered: Answered, tolerance: Tolerance) -> None:
    """Raises DifferentError unless the answer is the greedy continuation of the case's prompt."""
    if answered.prompt_tokens not in (None, case["prompt_tokens"]):
        raise DifferentError(f"{answered.prompt_tokens} prompt tokens instead of {case['prompt_tokens']}")
    tie = _first_tie(case, tolerance.margin)
    wanted, got = case["text"].rstrip(BROKEN), answered.text.rstrip(BROKEN)
    if got != wanted and not _cut_inside_character(case, wanted, got):
        place = _common(got, wanted)
        if tie is None or place < case["text_ends"][tie]:
            raise DifferentError(
                f"after {wanted[:place][-30:]!r} comes {got[place:][:30]!r}, not {wanted[place:][:30]!r}"
            )
        return
    if tie is None:
        _check_end(case, answered)


def _first_tie(case: Json, margin: float) -> int | None:
    """The first step whose two likeliest tokens are tied, among those that the answer consists of."""
    return next((step for step in range(_steps(case)) if case["margins"][step] < margin), None)


def _steps(case: Json) -> int:
    """Tokens chosen until the end, the end-of-text token included."""
    return len(case["greedy_ids"]) if case["eos_at"] is None else int(case["eos_at"]) + 1


def _cut_inside_character(case: Json, wanted: str, got: str) -> bool:
    """Whether only a last character that the token limit cut in two is left out."""
    return wanted.startswith(got) and len(got) >= case["text_whole"]


def _common(left: str, right: str) -> int:
    """Characters that both begin with."""
    pairs = zip(left, right, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _check_end(case: Json, answered: Answered) -> None:
    if answered.finish != case["finish_reason"]:
        raise DifferentError(f"finish_reason {answered.finish!r} instead of {case['finish_reason']!r}")
    counts = {_steps(case), len(case["text_ends"]) - 1}  # with or without the end-of-text token
    if answered.completion_tokens is not None and answered.completion_tokens not in counts:
        raise DifferentError(f"{answered.completion_tokens} completion tokens instead of {min(counts)}")


def check_top(case: Json, after: str, top: Mapping[str, float], tolerance: Tolerance) -> float:
    """Compares the likeliest tokens at one position; returns the largest difference of log-probabilities.

    Parts of characters and special tokens are left out: servers write them in their own ways.
    """
    total = float(case["logsumexp"][after])
    wanted: dict[str, float] = {
        token: logit - total
        for _, token, logit in case["top5"][after]
        if BROKEN not in token and not token.startswith("<|")
    }
    shared = wanted.keys() & top.keys()
    if len(wanted) < 3 and not shared:
        raise NotComparableError("the likeliest tokens are parts of characters or special")
    # The fifth and the sixth may change places.
    if len(shared) < max(1, len(wanted) - 1):
        raise DifferentError(f"{sorted(wanted.keys() - shared)} are not among {sorted(top)}")
    worst = max(abs(top[token] - wanted[token]) for token in shared)
    if not worst <= tolerance.logprob:
        raise DifferentError(f"log-probabilities differ by {worst:.4f}")
    return worst


def check_nll(wanted: float, logprobs: Sequence[float | None], tokens: int, tolerance: Tolerance) -> float:
    """Compares a text's mean negative log-likelihood, without its first token; returns the difference."""
    values = [math.nan if value is None else value for value in logprobs[1:tokens]]
    if len(values) != tokens - 1:
        raise DifferentError(f"{len(logprobs)} log-probabilities for {tokens} tokens")
    off = abs(-sum(values) / len(values) - wanted)
    if not off <= tolerance.nll:  # also when it is not a number
        raise DifferentError(f"mean NLL {-sum(values) / len(values):.5f} instead of {wanted:.5f}")
    return off
