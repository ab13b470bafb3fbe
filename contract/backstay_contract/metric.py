"""The metrics that a baseline may name, with their units and which way is worse."""

from enum import StrEnum
from typing import NamedTuple


class MetricName(StrEnum):
    """A judged metric. The spelling is the field's name under `spec.baselines`."""

    P99_LATENCY = "p99LatencyMs"
    TTFT_P99 = "ttftP99Ms"
    INTER_TOKEN_P99 = "interTokenP99Ms"
    ERROR_RATE = "errorRate"
    TOKENS_PER_SECOND = "tokensPerSecond"
    PERPLEXITY = "perplexity"


class MetricKind(NamedTuple):
    """How a metric is judged."""

    unit: str
    allowed_fraction: float | None
    """p0: the fraction of requests that may be beyond the limit; None where the limit itself is that fraction
    (errorRate) or where the metric is no proportion of requests (perplexity)."""
    lower_is_worse: bool = False


KINDS: dict[MetricName, MetricKind] = {
    MetricName.P99_LATENCY: MetricKind("ms", 0.01),
    MetricName.TTFT_P99: MetricKind("ms", 0.01),
    MetricName.INTER_TOKEN_P99: MetricKind("ms", 0.01),
    MetricName.ERROR_RATE: MetricKind("fraction", None),
    MetricName.TOKENS_PER_SECOND: MetricKind("tokens/s", 0.01, lower_is_worse=True),
    MetricName.PERPLEXITY: MetricKind("perplexity", None),
}

PERPLEXITY_TOLERANCE = 1.1
"""The tolerance of a perplexity that names none: twice the perplexity would be another model."""
ERROR_RATE_FLOOR = 0.002
"""The smallest limit of the error rate: a recorded rate of 0 does not forbid a single error."""
ERROR_RATE_PASS_FLOOR = 0.01
"""The smallest error rate that a Pass must exclude: to exclude 0.002 takes 1,917 requests without an error."""


def pass_fraction(metric: MetricName, allowed_fraction: float) -> float:
    """The fraction beyond the limit that a Pass must exclude, where a Breach must exclude `allowed_fraction`.

    They differ for small error rates: "above 0.2 %" and "below 1 %" can both be true, and each keeps its odds.
    """
    return max(ERROR_RATE_PASS_FLOOR, allowed_fraction) if metric is MetricName.ERROR_RATE else allowed_fraction


def limit_of(metric: MetricName, value: float, tolerance: float) -> float:
    """The limit that a baseline sets, in the metric's unit: baseline × tolerance (÷ where lower is worse)."""
    if KINDS[metric].lower_is_worse:
        return value / tolerance
    limit = value * tolerance
    return min(1.0, max(ERROR_RATE_FLOOR, limit)) if metric is MetricName.ERROR_RATE else limit
