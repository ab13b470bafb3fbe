"""The custom resource's status: only what cannot be derived from the cluster, and what people need to read."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from backstay_contract.base import Document
from backstay_contract.digest import Digest
from backstay_contract.evidence import MetricEvidence, MetricVerdict
from backstay_contract.metric import MetricName
from backstay_contract.profile import HardwareProfile
from backstay_contract.resource import Baselines, Model
from backstay_contract.serving import Serving

MAX_REJECTED = 20
MAX_HISTORY = 10
MAX_NOTICES = 5


class Colour(StrEnum):
    BLUE = "blue"
    GREEN = "green"

    @property
    def other(self) -> "Colour":
        return Colour.GREEN if self is Colour.BLUE else Colour.BLUE


NO_COLOUR = "none"
"""A selector's value that no pod has: the Service exists and selects nothing."""


class Phase(StrEnum):
    PENDING = "Pending"
    STARTING = "Starting"
    CHECKING = "Checking"
    AWAITING_PROMOTION = "AwaitingPromotion"
    SOAKING = "Soaking"
    SERVING = "Serving"
    HELD = "Held"
    ROLLING_BACK = "RollingBack"
    FAILED = "Failed"
    TERMINATING = "Terminating"


class Fetching(Document):
    """How far a candidate's pods are with the model's files: the slowest of them."""

    bytes: Annotated[int, Field(ge=0)]
    bytes_total: Annotated[int, Field(ge=0)]
    bytes_per_second: Annotated[int, Field(ge=0)]
    seconds_left: int | None = None


class Side(Document):
    """A colour and what it runs."""

    colour: Colour
    version: str
    digest: Digest
    revision: str
    ready: int = 0
    """Ready pods of this revision."""
    replicas: int = 0
    """Pods that are asked for."""
    progress: Fetching | None = None
    """While its pods fetch the model; renewed every ten seconds at most."""


class Recipe(Document):
    """What it takes to build a revision again after the spec has moved on. The image is in `serving`."""

    model: Model
    hardware_profile: HardwareProfile = HardwareProfile()
    serving: Serving = Serving()
    baselines: Baselines = Baselines()
    """Not part of the revision, but its pods were started with them and count by them."""


class MetricLimit(Document):
    """A limit that the attempt is judged by, in the metric's unit."""

    metric: MetricName
    limit: float


class Attempt(Document):
    """One try to bring one revision into service. Evidence never crosses attempts."""

    id: str
    revision: str
    digest: Digest
    version: str
    colour: Colour
    image: str
    replicas: int = 0
    """spec.replicas when it was opened: before the flip only a later increase reaches the active colour."""
    started_at: AwareDatetime
    switched_at: AwareDatetime | None = None
    """When the Service was flipped to it."""
    smoke_passed_at: AwareDatetime | None = None
    evaluation: MetricVerdict | None = None
    """What was found on the evaluation set before the flip; Skipped, with the reason, where nothing was."""
    observed_seconds: float = 0
    """Seconds of soak during which there was data."""
    progress_since: AwareDatetime | None = None
    """From when the progress deadline counts; waiting for capacity, metrics or a person starts it anew."""
    last_data_at: AwareDatetime | None = None
    held_since: AwareDatetime | None = None
    paused_since: AwareDatetime | None = None
    """From when rollout.paused keeps it from going on; its deadlines do not run meanwhile."""
    ended_at: AwareDatetime | None = None
    """When it was decided; evidence is kept to be read."""
    outcome: str | None = None
    """The reason of its end."""
    recipe: Recipe | None = None
    """What its revision is built from: it goes into the history when it serves."""
    limits: tuple[MetricLimit, ...] = ()
    evidence: Annotated[tuple[MetricEvidence, ...], Field(max_length=16)] = ()
    previous_evidence: Annotated[tuple[MetricEvidence, ...], Field(max_length=16)] = ()
    """The previous colour's, against its own limits and from the flip on: what both breach has another cause."""


class Rejection(Document):
    """Why a digest is not tried again until a person asks for it."""

    digest: Digest
    revision: str
    version: str
    attempt: str
    reason: str
    message: str = ""
    metric: MetricName | None = None
    observed: float | None = None
    limit: float | None = None
    at: AwareDatetime
    retry_token: str = ""
    """rollout.retryToken at that time; another value asks for a retry."""


class HistoryEntry(Document):
    """A revision that served."""

    revision: str
    digest: Digest
    version: str
    image: str
    verified: bool
    reason: str
    at: AwareDatetime
    recipe: Recipe | None = None
    """What it is built from again; None where an older version wrote the entry."""
    limits: tuple[MetricLimit, ...] = ()
    """What it was judged by, and is watched by while it serves."""


class Returning(Document):
    """A slow way back: a revision of the history shall serve although the spec asks for another one."""

    to: str
    """The revision."""
    asked: str
    """The revision that the spec asked for when this began; a spec that asks for another one ends it."""
    reason: str
    message: str = ""
    mode: Literal["normal", "degraded"] = "normal"
    """The mode in which it serves at first."""
    since: AwareDatetime


class Degraded(Document):
    """A revision whose answers are cut until the judge passes it."""

    revision: str
    reason: str
    message: str = ""
    since: AwareDatetime


class Numbers(Document):
    """What the judge saw of the metric that decided."""

    metric: MetricName
    observed: float | None = None
    limit: float | None = None
    n: int = 0
    """Requests that were judged."""
    k: int = 0
    """Requests beyond the limit."""
    e_value: float | None = None
    """log10 of the e-value against the limit."""


class Notice(Document):
    """Something that people and other systems are told once, remembered until surely told."""

    id: str
    """The same for the same attempt and transition, whichever operator tells it."""
    reason: str
    message: str = ""
    warning: bool = False
    at: AwareDatetime
    attempt: str | None = None
    revision: str | None = None
    """Of the attempt, as are digest and version."""
    digest: Digest | None = None
    version: str | None = None
    active_revision: str | None = None
    previous_revision: str | None = None
    numbers: Numbers | None = None


class Failure(Document):
    """The last thing that went wrong in a candidate's pod."""

    reason: str
    message: str
    exit_code: int | None = None
    pod: str | None = None
    container: str | None = None
    log_tail: str | None = None
    at: AwareDatetime


class Condition(Document):
    """A condition in Kubernetes' own form."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""
    last_transition_time: AwareDatetime
    observed_generation: int


class ModelDeploymentStatus(Document):
    """What serves, what is tried, and why."""

    observed_generation: int = 0
    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    active: Side | None = None
    candidate: Side | None = None
    previous: Side | None = None
    replicas: int = 0
    """Pods of the active colour."""
    ready_replicas: int = 0
    selector: str = ""
    """Label selector of the active colour's pods, for autoscalers."""
    ready: str = "0/0"
    """Ready and wanted pods of the active colour, as `kubectl get` shows it."""
    attempts: int = 0
    """Attempts that were ever opened."""
    attempt: Attempt | None = None
    verdicts: Annotated[tuple[MetricVerdict, ...], Field(max_length=16)] = ()
    rejected: Annotated[tuple[Rejection, ...], Field(max_length=MAX_REJECTED)] = ()
    history: Annotated[tuple[HistoryEntry, ...], Field(max_length=MAX_HISTORY)] = ()
    returning: Returning | None = None
    degraded: Degraded | None = None
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
    last_failure: Failure | None = None
    notices: Annotated[tuple[Notice, ...], Field(max_length=MAX_NOTICES)] = ()
    """The latest things that were told as events and notifications."""

    @property
    def open_attempt(self) -> Attempt | None:
        """The attempt that is not decided yet."""
        return self.attempt if self.attempt is not None and self.attempt.ended_at is None else None


def parse_status(status: dict[str, Any]) -> ModelDeploymentStatus:
    """The status in a resource's JSON; an empty one where there is none yet."""
    return ModelDeploymentStatus.model_validate(status)
