"""What is judged against, and how sure the judge must be."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from backstay_contract.metric import KINDS, MetricName


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How sure the judge must be. The odds are per attempt, however often one looks."""

    alpha: float = 1e-3
    """Odds of a false Breach per attempt, split evenly over the judged metrics."""
    alpha_pass: float = 0.05
    """Odds of a false Pass per metric. Not split: the attempt passes only if every metric does, so its odds are
    at most those of its worst metric."""
    alpha_rest: float = 0.05
    """Odds at which the other pods count as showing the breach too, when the worst pod is left out."""
    min_windows: int = 2
    """Closed windows that a Pass needs, and windows beyond the allowed fraction that a Breach needs."""
    min_pods: int = 2
    """Pods that the evidence must come from, where there are that many."""
    dispersion_limit: float = 2.0
    """Above it, requests of a window share their load too much to count as independent."""

    def __post_init__(self) -> None:
        for name in ("alpha", "alpha_pass", "alpha_rest"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise ValueError(f"{name}: {value} is not between 0 and 1 (both excluded)")
        for name in ("min_windows", "min_pods"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"{name}: {value} must be at least 1")

    def shared_by(self, metrics: int) -> "Settings":
        """What one of so many metrics has of alpha."""
        return replace(self, alpha=self.alpha / max(1, metrics))


@dataclass(frozen=True)
class Limit:
    """A metric's limit: at most `allowed_fraction` of the requests may be beyond `value` (in the metric's unit)."""

    metric: MetricName
    value: float
    allowed_fraction: float

    def __post_init__(self) -> None:
        if not 0 < self.value < float("inf"):
            raise ValueError(f"{self.metric}: a limit of {self.value} must be positive and finite")
        if not 0 < self.allowed_fraction <= 1:
            raise ValueError(f"{self.metric}: an allowed fraction of {self.allowed_fraction} must be in (0, 1]")


def limit_on_requests(metric: MetricName, value: float) -> Limit:
    """The limit of a metric that is judged request by request; for the error rate the limit is the fraction.

    Raises ValueError for perplexity, which is no proportion of requests.
    """
    if metric is MetricName.ERROR_RATE:
        return Limit(metric, value, value)
    fraction = KINDS[metric].allowed_fraction
    if fraction is None:
        raise ValueError(f"{metric}: is judged on the evaluation set, not request by request")
    return Limit(metric, value, fraction)


def limits_on_requests(values: Mapping[MetricName, float | None]) -> tuple[Limit, ...]:
    """The limits to read and count against: those that are given and judged request by request."""
    return tuple(
        limit_on_requests(metric, value)
        for metric, value in values.items()
        if value is not None and metric is not MetricName.PERPLEXITY
    )
