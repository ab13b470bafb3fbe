"""Rules that answers are held against before they leave a pod."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from backstay_contract.base import Document
from backstay_contract.schema import rules


class OutputCheck(StrEnum):
    """What may be wrong with an answer."""

    LENGTH = "Length"
    """It has more than `most` characters."""
    EMPTY = "Empty"
    """It has nothing but white space."""
    ILLEGAL_CHARACTERS = "IllegalCharacters"
    """It has control characters, broken ones or such that Unicode does not use."""
    REPETITION = "Repetition"
    """A passage stands `most` times one after another, over 64 characters or more."""


class Fallback(StrEnum):
    RETRY = "Retry"
    """It is written again, twice at most, and then refused. A streamed or greedy answer is refused at once."""
    TRUNCATE = "Truncate"
    """It ends before what is wrong, with finish_reason `content_filter`."""
    ERROR = "Error"
    """It is refused: the request fails, and counts for the error rate."""


class OutputRule(Document):
    """One rule of the chain; the first that an answer breaks decides."""

    model_config = rules(
        ("self.rule != 'Length' || has(self.most)", "outputRules.most: needed where rule is Length"),
        (
            "self.rule != 'Empty' || self.fallback != 'Truncate'",
            "outputRules.fallback: an empty answer cannot be cut; write Retry or Error",
        ),
    )
    rule: OutputCheck
    """What is looked for."""
    fallback: Fallback
    """What is done then."""
    most: Annotated[int, Field(ge=2, le=1_000_000)] | None = None
    """Length: characters. Repetition: times; left out: 8."""
