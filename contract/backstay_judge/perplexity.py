"""Perplexity, paired on the manifest's evaluation set: the new loss minus the recorded one, text by text.

Pairing removes what makes some texts harder than others. The mean difference per token, in nats, is the log of new over
recorded perplexity, so it may be ln(limit / recorded) at most. Its error is that between texts (tokens of one text
depend on each other, texts do not), with Student's t for few texts. A model computes the same texts to the same losses
each time, so looking again is no new chance to err.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from backstay_contract.evidence import MetricVerdict, VerdictKind
from backstay_contract.metric import KINDS, MetricName

from backstay_judge.settings import Settings
from backstay_judge.student import quantile

MIN_ITEMS = 2
"""Texts below which the difference has no error estimate."""
ROUNDING = 1e-6
"""Nats per token that floating point may differ by from run to run: no regression, even where none is tolerated."""
MOST_NATS = 700.0
"""exp of it is about the largest number that a float holds; a perplexity that many times worse is as bad as any."""


@dataclass(frozen=True)
class EvaluatedItem:
    """One text of the evaluation set: sums of -ln p over its predicted tokens, in nats."""

    recorded_nll: float
    nll: float
    """As measured now; NaN or infinite if the model produced no number."""
    tokens: int


@dataclass(frozen=True)
class Difference:
    """The mean difference per token in nats, weighted by tokens, and its standard error."""

    mean: float
    error: float
    degrees: int
    """Degrees of freedom of the error: less than the texts when a few long ones carry most of the weight."""

    def bound(self, alpha: float) -> float:
        """How far below and above the mean the one-sided bounds at odds alpha lie."""
        return self.error * quantile(1 - alpha, self.degrees) if self.error > 0 else 0.0


@dataclass(frozen=True)
class Round:
    """One whole round over the evaluation set on one pod."""

    items: int
    broken: int
    """Items whose loss is not a number."""
    recorded: float
    """Perplexity of the set as it was recorded."""
    excess: Difference | None
    """New minus recorded loss; None where an item is broken, or there are fewer than MIN_ITEMS."""

    @property
    def perplexity(self) -> float | None:
        """The new perplexity."""
        return None if self.excess is None else _exp(math.log(self.recorded) + self.excess.mean)


def difference(items: Sequence[EvaluatedItem]) -> Difference:
    """The mean difference of at least MIN_ITEMS finite items.

    The error is the jackknife's (each text left out in turn), which holds where texts have very different lengths.
    """
    tokens = sum(item.tokens for item in items)
    mean = math.fsum(item.nll - item.recorded_nll for item in items) / tokens
    squares = math.fsum(
        ((item.nll - item.recorded_nll - mean * item.tokens) / (tokens - item.tokens)) ** 2 for item in items
    )
    count = len(items)
    effective = tokens**2 // sum(item.tokens**2 for item in items)
    return Difference(mean, math.sqrt(squares * (count - 1) / count), max(1, effective - 1))


def round_of(items: Sequence[EvaluatedItem]) -> Round:
    """What one round over a set of at least one item says."""
    broken = sum(1 for item in items if not math.isfinite(item.nll))
    nats = math.fsum(item.recorded_nll for item in items) / sum(item.tokens for item in items)
    told = difference(items) if not broken and len(items) >= MIN_ITEMS else None
    return Round(len(items), broken, _exp(nats), told)


def judge_perplexity(found: Round, *, limit: float, now: datetime, settings: Settings) -> MetricVerdict:
    """The verdict on one round; `limit` is a perplexity, as for every metric baseline × tolerance.

    Breach if the lower bound (at alpha) of the mean difference exceeds ln(limit / recorded), or any item is NaN or
    infinite. Pass if the upper bound (at alpha_pass) does not exceed it. With one item alone Inconclusive.
    """
    kind, reason, message = _decide(found, limit, settings)
    return MetricVerdict(
        metric=MetricName.PERPLEXITY,
        verdict=kind,
        reason=reason,
        message=message,
        at=now,
        limit=limit,
        unit=KINDS[MetricName.PERPLEXITY].unit,
        n=found.items,
        k=found.broken,
        estimate=found.perplexity,
    )


def _decide(found: Round, limit: float, settings: Settings) -> tuple[VerdictKind, str, str]:
    if found.broken:
        message = f"the loss of {found.broken} of {found.items} evaluation items is not a number"
        return VerdictKind.BREACH, "NonFiniteLoss", message
    if found.excess is None:
        message = f"{found.items} evaluation item says nothing about its error; at least {MIN_ITEMS} are needed"
        return VerdictKind.INCONCLUSIVE, "InsufficientData", message
    room = math.log(limit / found.recorded) + ROUNDING
    low = found.excess.mean - found.excess.bound(settings.alpha)
    high = found.excess.mean + found.excess.bound(settings.alpha_pass)
    message = (
        f"perplexity {found.perplexity:.4g} on {found.items} items, {_exp(found.excess.mean):.4g} times the recorded"
        f" {found.recorded:.4g} (at least {_exp(low):.4g}, at most {_exp(high):.4g} times); the limit is {limit:.4g}"
    )
    if low > room:
        return VerdictKind.BREACH, "BeyondLimit", message
    if high <= room:
        return VerdictKind.PASS, "WithinLimit", message
    return VerdictKind.INCONCLUSIVE, "InsufficientData", message


def _exp(nats: float) -> float:
    return math.exp(min(nats, MOST_NATS))
