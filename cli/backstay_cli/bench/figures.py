"""From answers to figures: percentiles with their confidence, the knee of the batch size. Pure."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from backstay_contract.metric import MetricName

CONFIDENCE_Z = 1.96
GAIN = 0.2
"""Less gain in throughput than this, from one batch size to the next, …"""
LATENCY = 0.5
"""… with more added latency than this, is beyond the knee."""


class Answer(NamedTuple):
    """One request of a benchmark; times in seconds."""

    kind: str
    began: float
    ended: float
    first: float | None = None
    """When the first token came."""
    tokens: int = 0
    error: str | None = None

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class Figure(NamedTuple):
    """A measured number."""

    value: float
    low: float
    high: float
    """95 % confidence interval."""
    samples: int


class Step(NamedTuple):
    """What a batch size gave."""

    size: int
    requests: int
    errors: int
    tokens_per_second: float
    p50_seconds: float
    p99_seconds: float


def quantile(values: Sequence[float], q: float) -> Figure:
    """A quantile as an order statistic, with the distribution-free interval of the order statistics around it.

    Where there are too few values for the upper end, it is the largest value.
    """
    ordered, n = sorted(values), len(values)
    spread = CONFIDENCE_Z * math.sqrt(n * q * (1 - q))

    def at(rank: float) -> float:
        return ordered[min(n - 1, max(0, math.ceil(rank) - 1))]

    return Figure(at(n * q), at(n * q - spread), at(n * q + spread + 1), n)


def error_rate(answers: Sequence[Answer]) -> Figure:
    """The fraction that failed, with Wilson's interval."""
    n, k = len(answers), sum(answer.error is not None for answer in answers)
    z2 = CONFIDENCE_Z**2
    middle, spread = (k + z2 / 2) / (n + z2), CONFIDENCE_Z * math.sqrt(k * (n - k) / n + z2 / 4) / (n + z2)
    return Figure(k / n, max(0.0, middle - spread), min(1.0, middle + spread), n)


def _gap(answer: Answer) -> float | None:
    if answer.first is None or answer.tokens < 2:
        return None
    return (answer.ended - answer.first) / (answer.tokens - 1) * 1000


def _first(answer: Answer) -> float | None:
    return None if answer.first is None else (answer.first - answer.began) * 1000


def _rate(answer: Answer) -> float | None:
    return answer.tokens / answer.seconds if answer.tokens and answer.seconds > 0 else None


# As the runtime counts them (see its telemetry), so that a limit means the same in both places.
_MEASURES: dict[MetricName, tuple[Callable[[Answer], float | None], float]] = {
    MetricName.P99_LATENCY: (lambda answer: answer.seconds * 1000, 0.99),
    MetricName.TTFT_P99: (_first, 0.99),
    MetricName.INTER_TOKEN_P99: (_gap, 0.99),
    MetricName.TOKENS_PER_SECOND: (_rate, 0.01),
}


def figures(answers: Sequence[Answer]) -> dict[MetricName, Figure]:
    """Every metric that the answers speak of, in the metric's unit."""
    good = [answer for answer in answers if answer.error is None]
    found = {MetricName.ERROR_RATE: error_rate(answers)} if answers else {}
    for metric, (measure, q) in _MEASURES.items():
        values = [value for answer in good if (value := measure(answer)) is not None]
        if values:
            found[metric] = quantile(values, q)
    return found


def step(size: int, answers: Sequence[Answer], seconds: float) -> Step:
    """What a batch size gave in so many seconds."""
    good = [answer for answer in answers if answer.error is None]
    times = [answer.seconds for answer in good] or [math.inf]
    return Step(
        size=size,
        requests=len(answers),
        errors=len(answers) - len(good),
        tokens_per_second=sum(answer.tokens for answer in good) / seconds,
        p50_seconds=quantile(times, 0.5).value,
        p99_seconds=quantile(times, 0.99).value,
    )


def beyond_knee(before: Step, after: Step) -> bool:
    """Whether the next batch size costs more latency than its throughput is worth."""
    gain = after.tokens_per_second / before.tokens_per_second - 1 if before.tokens_per_second > 0 else math.inf
    cost = after.p50_seconds / before.p50_seconds - 1 if before.p50_seconds > 0 else math.inf
    return after.errors * 2 > after.requests or (gain < GAIN and cost > LATENCY)


def knee(steps: Sequence[Step]) -> int:
    """The last batch size before the one that is beyond the knee; the largest that was tried where none is."""
    for before, after in itertools.pairwise(steps):
        if beyond_knee(before, after):
            return before.size
    return steps[-1].size


def concurrency(answers: Sequence[Answer]) -> float:
    """Requests that were under way at the same time, on average."""
    if not answers:
        return 0.0
    seconds = max(answer.ended for answer in answers) - min(answer.began for answer in answers)
    return sum(answer.seconds for answer in answers) / seconds if seconds > 0 else float(len(answers))
