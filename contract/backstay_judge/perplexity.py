"""Perplexity, paired on the manifest's evaluation set: the new loss minus the recorded one, text by text.

Pairing removes what makes some texts harder than others. The mean difference per token, in nats, is the log of the
ratio of the perplexities, so the limit is ln tolerance. Its error is that between texts (tokens of one text depend on
each other, texts do not), with Student's t for few texts.
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


def judge_perplexity(
    items: Sequence[EvaluatedItem], *, recorded: float, tolerance: float, now: datetime, settings: Settings
) -> MetricVerdict:
    """The verdict on the evaluation set; `recorded` is the baseline, limit = recorded × tolerance.

    Breach if the lower bound (at alpha) of the mean difference exceeds ln tolerance, or any item is NaN or infinite.
    Pass if the upper bound (at alpha_pass) does not exceed it. Without items NoData, with one Inconclusive.
    """
    kind, reason, message, ratio = _decide(items, tolerance, settings)
    return MetricVerdict(
        metric=MetricName.PERPLEXITY,
        verdict=kind,
        reason=reason,
        message=message,
        at=now,
        limit=recorded * tolerance,
        unit=KINDS[MetricName.PERPLEXITY].unit,
        n=len(items),
        k=sum(1 for item in items if not math.isfinite(item.nll)),
        estimate=ratio,
    )


def _decide(
    items: Sequence[EvaluatedItem], tolerance: float, settings: Settings
) -> tuple[VerdictKind, str, str, float | None]:
    if not items:
        return VerdictKind.NO_DATA, "NoEvaluation", "no item of the evaluation set was evaluated", None
    broken = sum(1 for item in items if not math.isfinite(item.nll))
    if broken:
        message = f"the loss of {broken} of {len(items)} evaluation items is not a number"
        return VerdictKind.BREACH, "NonFiniteLoss", message, None
    if len(items) < MIN_ITEMS:
        message = f"{len(items)} evaluation item says nothing about its error; at least {MIN_ITEMS} are needed"
        return VerdictKind.INCONCLUSIVE, "InsufficientData", message, None
    found = difference(items)
    limit = math.log(tolerance) + ROUNDING
    low = found.mean - found.bound(settings.alpha)
    high = found.mean + found.bound(settings.alpha_pass)
    message = (
        f"perplexity is {_ratio(found.mean):.4g} times the recorded one on {len(items)} items (at least"
        f" {_ratio(low):.4g}, at most {_ratio(high):.4g}); {tolerance:g} times are tolerated"
    )
    if low > limit:
        return VerdictKind.BREACH, "BeyondLimit", message, _ratio(found.mean)
    if high <= limit:
        return VerdictKind.PASS, "WithinLimit", message, _ratio(found.mean)
    return VerdictKind.INCONCLUSIVE, "InsufficientData", message, _ratio(found.mean)


def _ratio(nats: float) -> float:
    # exp(700) is the largest power that a float holds; a perplexity that many times worse is as bad as any.
    return math.exp(min(nats, 700.0))
