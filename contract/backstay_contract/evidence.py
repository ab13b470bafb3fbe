"""Evidence and verdicts as they stand in the status: what was counted, and what the judge says of it.

Everything here is small and bounded: a metric's evidence holds at most `MAX_PODS` pods and stays below 48 KiB of
JSON; a usual one (two pods) has about 1 KiB. Times are aware datetimes; numbers are finite.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints

from backstay_contract.base import Document
from backstay_contract.metric import MetricName

MAX_PODS = 128
"""Pods whose counters one metric's evidence remembers."""
MAX_MESSAGE = 512
"""Characters of a verdict's message."""

Count = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
PodName = Annotated[str, StringConstraints(max_length=253)]


class VerdictKind(StrEnum):
    """What the judge says of a metric or of the attempt."""

    PASS = "Pass"
    BREACH = "Breach"
    INCONCLUSIVE = "Inconclusive"
    """The evidence does not decide (yet)."""
    NO_DATA = "NoData"
    """There is no trustworthy reading of every ready pod; nothing is decided on what is missing."""
    POD_OUTLIER = "PodOutlier"
    """One pod is beyond the limit and the others are not: that pod is at fault, not the model."""
    SKIPPED = "Skipped"
    """Not judged, with the reason said: never counts as Pass."""


class EvidenceSource(StrEnum):
    """Where a reading came from. Both show the same cumulative counters of the pods."""

    PROMETHEUS = "Prometheus"
    PODS = "Pods"


class PodCounter(Document):
    """One pod's cumulative counters at its last counted reading, and what it added since the flip."""

    pod: PodName
    started: Annotated[float, Field(ge=0)]
    """Unix seconds at which the pod's process started: tells a restart from a value that is merely older."""
    source: EvidenceSource
    """Source of the reading that set the counters."""
    basis: Annotated[str, StringConstraints(max_length=64)]
    """What was counted: `series` (exact), or `buckets` with the two edges around the limit, in seconds."""
    at: AwareDatetime
    """Time of that reading."""
    judged: Count
    """Counter: requests that count for the metric."""
    beyond: Count
    """Counter: those beyond the limit, at least (counted above the next edge above the limit)."""
    beyond_at_most: Count
    """Counter: those beyond the limit, at most (counted above the next edge below the limit)."""
    n: Count = 0
    """Requests since the flip."""
    k: Count = 0
    """Requests beyond the limit since the flip, at least: for Breach."""
    k_at_most: Count = 0
    """Requests beyond the limit since the flip, at most: for Pass."""


class Windows(Document):
    """The soak cut into windows of about one interval. Requests of one window share its load."""

    closed: Count = 0
    """Windows that are over and had requests."""
    beyond: Count = 0
    """Those with more than the allowed fraction beyond the limit."""
    square_sum: Annotated[float, Field(ge=0)] = 0.0
    """Sum over closed windows of k_w² / n_w: what the dispersion is computed from."""
    log_wealth: Annotated[tuple[float, ...], Field(max_length=16)] = ()
    """Natural log of the wealth of each bet (see backstay_judge.betting)."""
    open_since: AwareDatetime
    open_n: Count = 0
    open_k: Count = 0


class MetricEvidence(Document):
    """What was counted for one metric in one attempt since the flip. It never crosses attempts."""

    metric: MetricName
    limit: float
    """In the metric's unit."""
    allowed_fraction: Fraction
    """p0: the fraction of requests that may be beyond the limit."""
    since: AwareDatetime
    """The flip: nothing before it counts."""
    born_after: AwareDatetime
    """A pod not in `pods` counts from zero if its process started after this, else from its first reading.
    Begins as `since` and moves on when a pod is forgotten, so that no pod can ever be counted twice."""
    at: AwareDatetime
    """Time of the last look."""
    n: Count = 0
    """Requests."""
    k: Count = 0
    """Requests beyond the limit, at least: what Breach is decided on."""
    k_at_most: Count = 0
    """Requests beyond the limit, at most: what Pass is decided on. Equal to k where the count is exact."""
    windows: Windows
    pods: Annotated[tuple[PodCounter, ...], Field(max_length=MAX_PODS)] = ()


class MetricVerdict(Document):
    """What the judge says of one metric, with the numbers it rests on."""

    metric: MetricName
    verdict: VerdictKind
    reason: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z0-9]{0,62}$")]
    message: Annotated[str, StringConstraints(max_length=MAX_MESSAGE)]
    at: AwareDatetime
    limit: float | None = None
    """In the metric's unit; absent where no baseline gives one."""
    unit: Annotated[str, StringConstraints(max_length=16)] = ""
    allowed_fraction: Fraction | None = None
    n: Count = 0
    """Requests (perplexity: evaluation items)."""
    k: Count = 0
    """Requests beyond the limit."""
    estimate: float | None = None
    """k/n (perplexity: the new perplexity)."""
    wilson_low: Fraction | None = None
    """Lower end of the 95 % Wilson interval of k/n: for reading, not for deciding."""
    wilson_high: Fraction | None = None
    """Upper end of the 95 % Wilson interval of k/n: for reading, not for deciding."""
    e_value: float | None = None
    """log10 of the e-value against "within the limit"; Breach at or above `breachAt`."""
    breach_at: float | None = None
    """log10 of the e-value that a Breach needs."""
    pass_e_value: float | None = None
    """log10 of the e-value against "at or beyond the limit"; Pass at or above `passAt`."""
    pass_at: float | None = None
    """log10 of the e-value that a Pass needs."""
    dispersion: float | None = None
    """How much more the windows differ than independent requests would; 1 is independent."""
    windows: Count = 0
    pods: Count = 0
    """Pods that the requests came from."""
    pod: PodName | None = None
    """The pod at fault, for PodOutlier."""
    source: EvidenceSource | None = None
    query: Annotated[str, StringConstraints(max_length=512)] | None = None
    """What was read: the query, or the pods' own metrics."""


class AttemptVerdict(Document):
    """What the judge says of the attempt, and of each listed metric."""

    verdict: VerdictKind
    """Breach if any metric's is; Pass only if every judged metric's is and one is judged at all."""
    reason: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z0-9]{0,62}$")]
    message: Annotated[str, StringConstraints(max_length=MAX_MESSAGE)]
    at: AwareDatetime
    metrics: tuple[MetricVerdict, ...] = ()
