"""Numbers from the load's answers. Pure; times are Unix seconds, durations seconds unless a name says ms."""

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence

from tests.e2e.story import settings
from tests.e2e.story.answers import Answer


def percentile(values: Iterable[float], fraction: float) -> float:
    """The smallest value that at least this fraction of the values does not exceed (nearest rank). At least one
    value is needed: a percentile of nothing is an error, not a number."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a percentile needs at least one value")
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


def latencies_ms(answers: Iterable[Answer]) -> list[float]:
    """Milliseconds of the requests that ended well."""
    return [answer.ms for answer in answers if answer.good]


def rate(probes: Sequence[Answer]) -> float:
    """Requests per second that keep an engine busy for `settings.BUSY` of the time, from requests that were sent one
    after the other; within the bounds of the settings. The median, since the first requests may warm something up. A
    probe that failed is an error."""
    latencies = latencies_ms(probes)
    if not probes or len(latencies) < len(probes):
        raise ValueError(f"{len(probes) - len(latencies)} of {len(probes)} probes were not answered")
    wanted = settings.BUSY * 1000 / statistics.median(latencies)
    return min(settings.HIGHEST_RATE, max(settings.LOWEST_RATE, wanted))


def lost(answers: Iterable[Answer], excused: str | None = None) -> list[Answer]:
    """Requests without a good answer. Errors that the model `excused` gave itself are apart: see `own_errors`."""
    return [answer for answer in answers if not answer.good and (excused is None or answer.digest != excused)]


def own_errors(answers: Iterable[Answer], digest: str) -> list[Answer]:
    """Errors that this model answered with."""
    return [answer for answer in answers if not answer.good and answer.digest == digest]


def longest_gap(answers: Iterable[Answer], since: float, until: float) -> float:
    """The longest time within [since, until] in which no good answer ended; the whole of it when there is none."""
    ends = sorted(answer.ended for answer in answers if answer.good and since <= answer.ended <= until)
    marks = [since, *ends, until]
    return max(later - earlier for earlier, later in itertools.pairwise(marks))


def last_sent_to(answers: Iterable[Answer], digest: str, since: float, until: float) -> float | None:
    """When the last request was sent, within [since, until), that this model answered."""
    times = [answer.sent for answer in answers if answer.digest == digest and since <= answer.sent < until]
    return max(times, default=None)


def moved_after(answers: Sequence[Answer], winner: str, loser: str, flip: float, until: float) -> float | None:
    """Seconds from the flip until no request went to the loser any more; 0 when none did after the flip. None when
    the winner answered nothing after it: then nobody has moved."""
    if last_sent_to(answers, winner, flip, until) is None:
        return None
    last = last_sent_to(answers, loser, flip, until)
    return 0.0 if last is None else last - flip


def busy_fraction(answers: Sequence[Answer], since: float, until: float) -> float:
    """The fraction of [since, until] in which at least one request was under way: how busy one engine is that works
    on all of them at once."""
    spans = sorted((max(a.sent, since), min(a.ended, until)) for a in answers if a.ended > since and a.sent < until)
    busy, reached = 0.0, since
    for begin, end in spans:
        busy += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return busy / (until - since)
