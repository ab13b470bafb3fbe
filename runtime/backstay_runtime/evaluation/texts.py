"""The evaluation set as token ids, or why it cannot be computed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backstay_contract.manifest import EvaluationItem


@dataclass(frozen=True, slots=True)
class Text:
    """One item of the set."""

    tokens: tuple[int, ...]
    recorded_nll: float


def tokenize(
    items: Sequence[EvaluationItem], encode: Callable[[str], list[int]], longest: int
) -> tuple[tuple[Text, ...], str]:
    """The items' tokens, and why the set cannot be compared with what was recorded: empty where it can.

    `longest`: tokens that the model has positions for.
    """
    texts = tuple(Text(tuple(encode(item.text)), item.nll) for item in items)
    for number, (text, item) in enumerate(zip(texts, items, strict=True), start=1):
        if len(text.tokens) - 1 != item.tokens:
            return (), (
                f"evaluation item {number} has {len(text.tokens) - 1} predicted tokens, and its loss was recorded over "
                f"{item.tokens}: it was recorded with another tokenizer"
            )
        if len(text.tokens) > longest:
            return (), f"evaluation item {number} has {len(text.tokens)} tokens, and the model {longest} positions"
    return texts, ""
