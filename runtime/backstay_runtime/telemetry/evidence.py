"""When a request in flight is beyond a limit, and whether it was when it has ended. Pure; times in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass

from backstay_contract.metric import MetricName

JUDGED = (
    MetricName.P99_LATENCY,
    MetricName.TTFT_P99,
    MetricName.INTER_TOKEN_P99,
    MetricName.TOKENS_PER_SECOND,
)
"""The metrics whose evidence is a proportion of requests."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A request so far."""

    arrival: float
    most_tokens: int
    """Tokens that it may generate in all."""
    first_token: float | None = None
    """When its first token came."""
    tokens: int = 0


def crossing(metric: MetricName, limit: float, progress: Progress) -> float | None:
    """From when on the request is beyond the limit whatever it still does; None if that cannot be said yet."""
    if metric is MetricName.P99_LATENCY:
        return progress.arrival + limit / 1000
    if metric is MetricName.TTFT_P99:
        return None if progress.first_token is not None else progress.arrival + limit / 1000
    if metric is MetricName.TOKENS_PER_SECOND:
        if not progress.most_tokens:  # an encoder's: it generates none
            return None
        # Even with every token that it may have, the rate is below the limit after this time.
        return progress.arrival + progress.most_tokens / limit
    if progress.first_token is None:
        return None
    return progress.first_token + limit / 1000 * max(1, progress.most_tokens - 1)


def beyond(metric: MetricName, limit: float, progress: Progress, end: float) -> bool | None:
    """Whether a request that ended at `end` is beyond the limit; None if it says nothing about the metric.

    Latency and time to the first token are the request's own. interTokenP99Ms is judged by the mean gap between a
    request's tokens, tokensPerSecond by its tokens over its latency.
    """
    if metric is MetricName.P99_LATENCY:
        return end - progress.arrival > limit / 1000
    if progress.first_token is None:
        return None
    if metric is MetricName.TTFT_P99:
        return progress.first_token - progress.arrival > limit / 1000
    if metric is MetricName.TOKENS_PER_SECOND:
        return progress.tokens < limit * (end - progress.arrival)
    if progress.tokens < 2:
        return None
    return (end - progress.first_token) / (progress.tokens - 1) > limit / 1000


def seconds(limits: Mapping[MetricName, float], metric: MetricName) -> list[float]:
    """The limit of a metric in milliseconds as seconds, in a list for bucket edges; empty without one."""
    return [limits[metric] / 1000] if metric in limits else []
