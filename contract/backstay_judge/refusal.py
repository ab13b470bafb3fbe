"""Why there is no reading."""

from enum import StrEnum
from typing import NamedTuple


class RefusalReason(StrEnum):
    """Reasons, as they stand in a NoData verdict."""

    MISSING = "SeriesMissing"
    DUPLICATE = "SeriesDuplicate"
    NOT_A_COUNT = "NotACount"
    NOT_A_NUMBER = "NotANumber"
    STALE = "SampleStale"
    DOWN = "ScrapeFailed"
    INCONSISTENT = "CountsInconsistent"


class Refusal(NamedTuple):
    """A reason and the sentence that names the series and what is wrong with it."""

    reason: RefusalReason
    message: str


class ReadingError(Exception):
    """Raised while a reading is made of samples that cannot be trusted."""

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.refusal = Refusal(reason, message)
