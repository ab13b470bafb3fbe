"""How far the evaluation is and what it found, as one value, and its Prometheus series."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from backstay_contract.names import RuntimeMetric
from backstay_judge import EvaluatedItem, Round
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class EvaluationState:
    """Replaced as a whole, so that a reader on another thread never sees half a round."""

    items: int = 0
    """Texts of the set; 0: the manifest has none."""
    done: int = 0
    """Of the present round."""
    rounds: int = 0
    """Whole ones."""
    seconds: float = 0.0
    """Of computing, in all."""
    nll: float = 0.0
    """Nats over all whole rounds, of the items with a number."""
    tokens: int = 0
    """Predicted tokens of those."""
    found: tuple[EvaluatedItem, ...] = ()
    """Of the last whole round."""
    last: Round | None = None
    problem: str = ""
    """Why the set cannot be computed; empty where it can."""

    def with_(self, **changes: Any) -> "EvaluationState":
        """A copy with some fields changed."""
        return replace(self, **changes)


class EvaluationCollector(Collector):
    """Series of the state as it is when they are scraped."""

    def __init__(self, who: Mapping[str, str]) -> None:
        self._who = dict(who)
        self.read: Callable[[], EvaluationState] = EvaluationState
        """Gives the present state; that of an empty set until there is a model."""

    def collect(self) -> Iterator[Metric]:
        """The series; those of the last round are 0 before there is one."""
        state, names = self.read(), RuntimeMetric
        last = state.last or Round(state.items, 0, 0.0, None)
        excess = last.excess
        yield self._counter(names.EVALUATION_ROUNDS, "Whole rounds over the evaluation set.", state.rounds)
        yield self._counter(names.EVALUATION_NLL, "Loss over all rounds, in nats.", state.nll)
        yield self._counter(names.EVALUATION_TOKENS, "Predicted tokens over all rounds.", state.tokens)
        yield self._counter(names.EVALUATION_SECONDS, "Computing time of the rounds.", state.seconds)
        yield self._gauge(names.EVALUATION_ITEMS, "Texts of the evaluation set.", last.items)
        yield self._gauge(names.EVALUATION_BROKEN, "Those whose loss is not a number.", last.broken)
        yield self._gauge(names.EVALUATION_RECORDED, "Perplexity as it was recorded.", last.recorded)
        yield self._gauge(names.EVALUATION_EXCESS, "New minus recorded loss per token.", excess.mean if excess else 0)
        yield self._gauge(names.EVALUATION_ERROR, "Its standard error.", excess.error if excess else 0)
        yield self._gauge(names.EVALUATION_DEGREES, "Degrees of freedom of that.", excess.degrees if excess else 0)

    def _counter(self, name: str, says: str, value: float) -> Metric:
        family = CounterMetricFamily(name, says, labels=list(self._who))
        family.add_metric(list(self._who.values()), value)
        return family

    def _gauge(self, name: str, says: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, says, labels=list(self._who))
        family.add_metric(list(self._who.values()), value)
        return family
