"""The decision tree of the way back: what is done about which trouble, and what happens after the soak."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from backstay_contract.base import Document
from backstay_contract.metric import MetricName


class Trigger(StrEnum):
    """What a rule answers to: a judged metric, by its name under `spec.baselines`, or a trouble of another kind."""

    HARDWARE_MISMATCH = "HardwareMismatch"
    P99_LATENCY = MetricName.P99_LATENCY.value
    TTFT_P99 = MetricName.TTFT_P99.value
    INTER_TOKEN_P99 = MetricName.INTER_TOKEN_P99.value
    ERROR_RATE = MetricName.ERROR_RATE.value
    TOKENS_PER_SECOND = MetricName.TOKENS_PER_SECOND.value
    PERPLEXITY = MetricName.PERPLEXITY.value
    ALERT = "Alert"
    """A firing alert that Alertmanager reported for the digest that serves."""


class Action(StrEnum):
    ROLLBACK = "Rollback"
    """Serve another revision again."""
    DEGRADE = "Degrade"
    """Stay, with answers cut at 128 tokens, until the judge passes the revision."""
    HOLD = "Hold"
    """Stay as it is and tell people."""


class Target(StrEnum):
    PREVIOUS = "Previous"
    """The revision that served before."""
    LAST_VERIFIED = "LastVerified"
    """The newest other revision that the judge passed; it may be older than the previous one."""


class ModeThere(StrEnum):
    NORMAL = "Normal"
    DEGRADED = "Degraded"
    """Answers are cut at 128 tokens there, until the judge passes the revision."""


class AfterVerified(StrEnum):
    ROLLBACK = "Rollback"
    """The rules decide, as in the soak. The revision to go back to is brought up first where it is not kept warm."""
    DEGRADE = "Degrade"
    HOLD = "Hold"
    IGNORE = "Ignore"
    """After the soak nothing is watched."""


class Rule(Document):
    """What is done about one trouble."""

    on: Trigger
    """The metric that breached its limit, or the other trouble."""
    do: Action = Action.ROLLBACK
    """What is done."""
    to: Target = Target.PREVIOUS
    """Which revision a rollback brings back."""
    mode: ModeThere = ModeThere.NORMAL
    """The mode in which that revision serves at first."""


DEFAULT_RULES = (
    Rule(on=Trigger.HARDWARE_MISMATCH),
    Rule(on=Trigger.P99_LATENCY, mode=ModeThere.DEGRADED),
    Rule(on=Trigger.PERPLEXITY, to=Target.LAST_VERIFIED),
    Rule(on=Trigger.ERROR_RATE),
)


class Watch(Document):
    """How the active revision is watched after its soak."""

    interval_seconds: Annotated[float, Field(ge=0.2, le=3600)] = 30.0
    """Seconds between two looks at the metrics."""
    round_seconds: Annotated[int, Field(ge=10, le=604_800)] = 1800
    """Evidence is counted anew after this time: a long good past must not hide a trouble that begins."""
    alpha: Annotated[float, Field(gt=0, le=0.5)] = 0.0001
    """Chance, each round, that a revision which holds its baselines is said to breach one."""


class Rollback(Document):
    """The way back."""

    rules: Annotated[tuple[Rule, ...], Field(max_length=16)] = DEFAULT_RULES
    """The first rule whose trouble is there decides. A trouble without a rule: back to the previous revision."""
    after_verified: AfterVerified = AfterVerified.ROLLBACK
    """What a breach after the soak leads to."""
    watch: Watch = Watch()
