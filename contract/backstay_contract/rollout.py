"""How a new revision comes into service: checks, promotion, soak. None of it is part of the revision."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from backstay_contract.base import Document
from backstay_contract.schema import rules


class Strategy(StrEnum):
    BLUE_GREEN = "BlueGreen"
    """The candidate comes up beside the active colour."""
    RECREATE = "Recreate"
    """The active colour goes down first: for clusters that have no room for two. Nothing serves in between."""


class Promotion(StrEnum):
    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class Policy(StrEnum):
    """What to do when a soak ends without an answer."""

    PROMOTE = "Promote"
    HOLD = "Hold"
    ROLLBACK = "Rollback"


class WhenSpecChanges(StrEnum):
    QUEUE = "Queue"
    SUPERSEDE = "Supersede"


class MetricsSource(StrEnum):
    AUTO = "Auto"
    PROMETHEUS = "Prometheus"
    PODS = "Pods"


class SmokeCheck(Document):
    """One real inference on every candidate pod; its answer must name the digest."""

    prompt: Annotated[str, StringConstraints(min_length=1, max_length=2048)] = "The capital of France is"
    """Text that is sent."""
    max_tokens: Annotated[int, Field(ge=1, le=64)] = 1
    """Tokens that are asked for."""
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    """Seconds after which an inference without an answer has failed."""


class EvaluationCheck(Document):
    """Perplexity on the manifest's evaluation set, compared text by text with the recorded losses."""

    enabled: bool = True
    """false: perplexity is judged neither before the flip nor after it. Without an evaluation set it never is."""


class Checks(Document):
    """What a candidate must pass before the flip."""

    smoke: SmokeCheck = SmokeCheck()
    evaluation: EvaluationCheck = EvaluationCheck()


class Soak(Document):
    """The watched time after the flip."""

    model_config = rules(("self.maxSeconds >= self.minSeconds", "soak.maxSeconds: must be at least soak.minSeconds"))
    min_seconds: Annotated[int, Field(ge=0, le=604_800)] = 60
    """Observed seconds that must pass before a `Pass` ends the soak. Seconds without data do not count."""
    max_seconds: Annotated[int, Field(ge=0, le=604_800)] = 600
    """Observed seconds after which onInsufficientData decides."""
    interval_seconds: Annotated[float, Field(ge=0.2, le=300)] = 2.0
    """Seconds between two looks at the metrics."""
    alpha: Annotated[float, Field(gt=0, le=0.5)] = 0.001
    """Chance that a model which holds its baselines is sent back, over the whole attempt, however often one looks."""
    alpha_pass: Annotated[float, Field(gt=0, le=0.5)] = 0.05
    """Chance that a model at its limit is called verified."""
    on_insufficient_data: Policy = Policy.PROMOTE
    """What to do when maxSeconds are over and the requests were too few for a verdict."""
    on_no_data: Policy = Policy.HOLD
    """What to do when there was no data for holdTimeoutSeconds."""
    hold_timeout_seconds: Annotated[int, Field(ge=0, le=604_800)] = 600
    """Seconds without any data after which onNoData decides."""


class Metrics(Document):
    """Where the evidence comes from."""

    source: MetricsSource = MetricsSource.AUTO
    """`Auto` asks the operator's Prometheus and, where there is none or it is away, the pods themselves."""


class Rollout(Document):
    """How a new revision comes into service. None of it is part of the revision."""

    model_config = rules(
        (
            "self.strategy != 'Recreate' || self.promotion != 'Manual'",
            "rollout.promotion: must be Automatic where strategy is Recreate: nothing serves while one waits",
        ),
    )
    strategy: Strategy = Strategy.BLUE_GREEN
    """`BlueGreen`: the candidate comes up beside the active colour. `Recreate`: the active colour goes down first, for
    clusters without room for two; nothing serves in between, so neither a person nor metrics are waited for there."""
    paused: bool = False
    """No attempt is opened, no candidate is flipped to and no soak ends while this is true, and no deadline runs. The
    way back stays open."""
    promotion: Promotion = Promotion.AUTOMATIC
    """`Manual`: the flip waits until promote names the attempt."""
    promote: Annotated[str, StringConstraints(max_length=63)] = ""
    """Manual promotion: the id of the attempt (status.attempt.id) that may be flipped to; a stale id does nothing."""
    abort: Annotated[str, StringConstraints(max_length=63)] = ""
    """The id of an open attempt (status.attempt.id) that shall end: its candidate is rejected, and in the soak the
    Service goes back at once. A stale id does nothing."""
    rollback_to: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{12})?$", max_length=12)] = ""
    """A revision of status.history that shall serve, whatever the rest of the spec asks for; empty: what the spec asks
    for."""
    checks: Checks = Checks()
    soak: Soak = Soak()
    metrics: Metrics = Metrics()
    progress_deadline_seconds: Annotated[int, Field(ge=1, le=604_800)] = 1800
    """Seconds that one attempt may take until the flip; then its candidate is rejected."""
    scale_down_delay_seconds: Annotated[int, Field(ge=0, le=604_800)] = 30
    """Seconds that the losing colour is kept at least; 0: down as soon as it has drained."""
    drain_timeout_seconds: Annotated[int, Field(ge=0, le=86_400)] = 300
    """Seconds that the losing colour may take to finish its requests."""
    when_spec_changes_in_soak: WhenSpecChanges = WhenSpecChanges.QUEUE
    """`Queue`: a third revision waits for the verdict. `Supersede`: flip back first, then try it."""
    retry_token: Annotated[str, StringConstraints(max_length=63)] = ""
    """Change it to try a rejected digest again."""
