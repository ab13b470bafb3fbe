"""What the machine sees: a plain value, read once per pass by the shell."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from backstay_contract.evidence import EvidenceSource, MetricEvidence
from backstay_contract.metric import MetricName
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, Fetching
from backstay_judge import EvaluatedItem, Sample

from backstay_operator.rollout.capacity.nodes import Nodes
from backstay_operator.rollout.revision import Source


@dataclass(frozen=True, slots=True)
class PodFailure:
    """Why a pod of the candidate does not work, in the container's own words where it has some."""

    reason: Reason
    message: str
    hard: bool
    """True when waiting cannot cure it: the candidate is rejected at once."""
    container: str | None = None
    exit_code: int | None = None
    log_tail: str | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of one colour. `revision` and `attempt` come from its labels and annotations."""

    name: str
    revision: str
    attempt: str
    ready: bool
    terminating: bool = False
    ip: str | None = None
    unschedulable: str | None = None
    """The scheduler's sentence when no node has room."""
    failure: PodFailure | None = None
    mode: str | None = None
    """What the control port says; None where it was not asked or did not answer."""
    in_flight: int | None = None


@dataclass(frozen=True, slots=True)
class ColourState:
    """One colour's Deployment and pods as they are."""

    colour: Colour
    exists: bool = False
    revision: str = ""
    attempt: str = ""
    digest: str = ""
    version: str = ""
    image: str = ""
    source: Source | None = None
    """Where its pods fetch the model; None where that cannot be read."""
    problem: str = ""
    """Why the Deployment cannot make pods, in Kubernetes' words: a quota, a policy."""
    replicas: int = 0
    """Pods that the Deployment asks for."""
    pods: tuple[Pod, ...] = ()
    endpoints: int = 0
    """Endpoints of the active Service that are this colour's pods, whatever their state."""
    stuck: int = 0
    """Pods beside those that should have ended long ago, on a node that does not answer."""

    @property
    def own_pods(self) -> tuple[Pod, ...]:
        """Pods of the Deployment's present attempt: an older attempt's pods never count for it."""
        return tuple(pod for pod in self.pods if pod.attempt == self.attempt and not pod.terminating)

    @property
    def ready(self) -> int:
        return sum(pod.ready for pod in self.own_pods)

    @property
    def gone(self) -> bool:
        """No pod is wanted and none is left."""
        return self.replicas == 0 and not self.pods


@dataclass(frozen=True, slots=True)
class FlipRecord:
    """The last flip, as the Service itself remembers it: written in the same patch as the selector.

    So a crash between the flip and the status write loses nothing.
    """

    to: Colour
    attempt: str
    reason: str
    at: datetime
    message: str = ""
    metric: MetricName | None = None
    observed: float | None = None
    limit: float | None = None
    rejects: bool = False
    """Whether the attempt's digest is rejected by it."""
    degraded: bool = False
    """Whether the colour that it goes to serves in degraded mode at first."""
    then: str = ""
    """The revision that is brought up next, to go on to it."""


@dataclass(frozen=True, slots=True)
class Smoke:
    """The answer of one candidate pod to the smoke inference."""

    pod: str
    passed: bool
    wrong: bool = False
    """True when it answered, and wrongly: another digest, not finite, not an answer. False: not answered yet."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a candidate pod says of its evaluation set."""

    items: int = 0
    """Texts; 0: the manifest has no set."""
    done: int = 0
    """Of the present round."""
    rounds: int = 0
    """Whole ones."""
    found: tuple[EvaluatedItem, ...] = ()
    """Losses of the last whole round; empty before they are read."""
    problem: str = ""
    """Why the set cannot be computed."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the metrics of the colour that is judged."""

    samples: tuple[Sample, ...]
    """Raw counters, each with the label `pod`; empty when nothing answered."""
    source: EvidenceSource | None = None
    problem: str = ""
    """Why there are no samples, or not of every pod."""


@dataclass(frozen=True, slots=True)
class WatchRound:
    """What was counted of the revision at rest since its watch last began anew. The status does not hold it: at rest
    nothing is written."""

    attempt: str
    """The attempt that brought the revision into service."""
    degraded: bool
    """Whether its answers were cut meanwhile: such evidence says nothing of the normal mode."""
    since: datetime
    evidence: tuple[MetricEvidence, ...] = ()
    dark_since: datetime | None = None
    """Since when there has been no data."""


@dataclass(frozen=True, slots=True)
class FiringAlert:
    """An alert that Alertmanager reported as firing for this resource."""

    fingerprint: str
    name: str
    digest: str
    """The digest in the alert's labels: it speaks of no other."""
    message: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Serving:
    """What serves, for who asks whether an alert is about it."""

    digest: str
    since: datetime | None = None
    """When it came into service; None where nobody knows any more."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything one pass knows of the cluster."""

    colours: Mapping[Colour, ColourState]
    selector: Colour | None = None
    """The colour that the live Service selects; None: none, or no Service."""
    flip: FlipRecord | None = None
    smoke: tuple[Smoke, ...] = ()
    limits: Mapping[MetricName, float] = field(default_factory=dict)
    """Limits that the candidate's pods themselves report: the spec's, else their manifest's."""
    limits_known: bool = False
    evaluations: Mapping[str, Evaluation] = field(default_factory=dict)
    """By pod of the candidate, while its evaluation is waited for."""
    look: Look | None = None
    """At the open attempt's colour, at rest at the active one. None: it was not time to look."""
    previous_look: Look | None = None
    """At the other colour, while an attempt is open."""
    watch: WatchRound | None = None
    """What the last pass's decision gave back; None after a restart."""
    alerts: tuple[FiringAlert, ...] = ()
    nodes: Nodes | None = None
    """None: this pass has no need to know them."""
    fetching: Fetching | None = None
    """How far the candidate's pods are with the model; None where none fetches."""
    default_image: str = ""
    """The runtime image that new revisions get."""
