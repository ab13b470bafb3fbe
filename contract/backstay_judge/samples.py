"""Samples as any source gives them, and the checks that each must pass."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from backstay_judge.refusal import ReadingError, RefusalReason

UP = "up"
MAX_COUNT = 2**53
"""Above it a float no longer holds every whole number, so a count would be wrong."""


@dataclass(frozen=True)
class Sample:
    """One sample of one series.

    `timestamp` is the Unix time at which the pod was *scraped*. An instant query answers with the time of the query,
    which would make every stale sample look fresh: select a range (`series[10s]`) and take the last point, or ask
    for `timestamp(series)`. For a pod's own /metrics it is the time of the request.
    """

    name: str
    labels: Mapping[str, str]
    value: float
    timestamp: float


def is_finite(value: object) -> bool:
    """Whether it is a finite number: text, None and booleans are not, whatever the types promise."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def only(samples: Sequence[Sample], what: str) -> Sample:
    """The one sample of a series; raises ReadingError if it is missing or there are several."""
    if not samples:
        raise ReadingError(RefusalReason.MISSING, f"{what}: no such series")
    if len(samples) > 1:
        raise ReadingError(
            RefusalReason.DUPLICATE,
            f"{what}: {len(samples)} series for one pod; is it scraped by more than one job?",
        )
    return samples[0]


def whole_number(sample: Sample) -> int:
    """The sample's value as a count; raises ReadingError for anything else (NaN, ±Inf, negative, fractions, text)."""
    value = sample.value
    if not is_finite(value) or not 0 <= value <= MAX_COUNT or value != int(value):
        raise ReadingError(RefusalReason.NOT_A_COUNT, f"{sample.name}: {value!r} is not a count")
    return int(value)


def same_digest(label: str, digest: str) -> bool:
    """Whether a series' label names the digest, with or without its algorithm."""
    return label.removeprefix("sha256:") == digest.removeprefix("sha256:")


def check_up(series: Sequence[Sample]) -> None:
    """Raises ReadingError where Prometheus could not scrape the pod."""
    if any(sample.value == 0 for sample in series):
        raise ReadingError(RefusalReason.DOWN, "up is 0: the last scrape of the pod failed")


def check_age(samples: Iterable[Sample], now: datetime, max_age_seconds: float) -> None:
    """Raises ReadingError for a sample that shows the past, or a time that has not come."""
    for sample in samples:
        if not is_finite(sample.timestamp):
            raise ReadingError(RefusalReason.STALE, f"{sample.name}: the sample has no time ({sample.timestamp!r})")
        age = now.timestamp() - sample.timestamp
        if abs(age) > max_age_seconds:
            raise ReadingError(
                RefusalReason.STALE,
                f"{sample.name}: the sample is {age:.1f} s old, at most {max_age_seconds:g} s are trusted",
            )
