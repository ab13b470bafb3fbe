"""Counts from a histogram's buckets, where the runtime has no exact counter for a limit.

There is no interpolation: without an edge at the limit, Breach counts what is above the next edge *above* (certainly
beyond the limit), Pass what is above the next edge *below* (all that may be).
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from backstay_judge.refusal import ReadingError, RefusalReason
from backstay_judge.samples import Sample, whole_number


class Bucket(NamedTuple):
    """The requests that took at most `edge` seconds."""

    edge: float
    requests: int


class Tally(NamedTuple):
    """All requests, those certainly beyond the limit, those possibly beyond it, and what was counted."""

    judged: int
    beyond: int
    beyond_at_most: int
    basis: str


def read(samples: Sequence[Sample]) -> tuple[list[Bucket], list[Sample]]:
    """The cumulative buckets in ascending order; raises ReadingError unless they are a histogram."""
    buckets = sorted((Bucket(_edge(sample), whole_number(sample)) for sample in samples), key=lambda one: one.edge)
    name = samples[0].name
    if buckets[-1].edge != math.inf:
        raise ReadingError(RefusalReason.MISSING, f'{name}{{le="+Inf"}}: no such series')
    for lower, upper in pairwise(buckets):
        if lower.edge == upper.edge:
            raise ReadingError(RefusalReason.DUPLICATE, f'{name}{{le="{upper.edge:g}"}}: several series for one pod')
        if lower.requests > upper.requests:
            raise ReadingError(
                RefusalReason.INCONSISTENT,
                f"{name}: {lower.requests} requests up to {lower.edge:g} s but {upper.requests} up to {upper.edge:g} s",
            )
    return buckets, list(samples)


def around(buckets: Sequence[Bucket], limit_seconds: float) -> Tally:
    """The counts around a limit. `basis` names the edges; both are the limit when it has an edge of its own."""
    judged = buckets[-1].requests
    above = next(
        one for one in buckets if one.edge >= limit_seconds or math.isclose(one.edge, limit_seconds, rel_tol=1e-9)
    )
    if math.isclose(above.edge, limit_seconds, rel_tol=1e-9):
        below = above
    else:
        below = max((one for one in buckets if one.edge < limit_seconds), default=Bucket(0.0, 0))
    return Tally(judged, judged - above.requests, judged - below.requests, f"buckets {below.edge:.9g} {above.edge:.9g}")


def _edge(sample: Sample) -> float:
    text = sample.labels.get("le", "")
    try:
        edge = float(text)
    except ValueError:
        edge = math.nan
    if math.isnan(edge):
        raise ReadingError(RefusalReason.MISSING, f"{sample.name}: le={text!r} is not an edge")
    return edge
