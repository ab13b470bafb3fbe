"""The closed list of reasons: in status, conditions, events and metrics no other word is used.

Each member's docstring-like comment is its documentation; docs/reference-reasons.md is generated from it.
"""

from enum import StrEnum

from backstay_contract.termination import GaveUp


class Reason(StrEnum):
    """Why the resource is in its phase, or why something happened."""

    meaning: str

    def __new__(cls, value: str, meaning: str = "") -> "Reason":
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    # at rest
    SERVING = "Serving", "The revision that is asked for serves."
    NO_BASELINES = "NoBaselines", "The revision serves; no baseline was recorded, so nothing could be judged."
    INSUFFICIENT_DATA = "InsufficientData", "The soak ended with too few requests for a verdict."
    VERIFIED = "Verified", "Every recorded baseline holds, with enough evidence."
    REVISION_REJECTED = (
        "RevisionRejected",
        "The digest that is asked for was rejected; change rollout.retryToken to retry.",
    )
    PINNED = "Pinned", "A revision of the history serves because rollout.rollbackTo names it."
    REVISION_UNKNOWN = "RevisionUnknown", "The history cannot build the revision that rollout.rollbackTo names."
    PAUSED = "Paused", "Nothing goes forward while rollout.paused is true."
    # before the flip
    NEW_REVISION = "NewRevision", "A revision is asked for that does not serve; its candidate is brought up."
    STARTING = "Starting", "The candidate's pods pull, verify and load the model."
    INSUFFICIENT_CAPACITY = (
        "InsufficientCapacity",
        "No node has room for the candidate; the active colour serves on.",
    )
    NO_MATCHING_NODES = "NoMatchingNodes", "No node has the hardware that hardwareProfile names."
    PROFILE_AMBIGUOUS = "ProfileAmbiguous", "The nodes' labels do not say which hardware they have."
    RECREATING = "Recreating", "The active colour goes down to make room, since rollout.strategy is Recreate."
    WAITING_FOR_DRAIN = "WaitingForDrain", "The colour that the candidate needs still finishes its requests."
    CHECKING = "Checking", "The candidate is ready and is checked."
    SMOKE_PENDING = "SmokePending", "The smoke inference has not answered yet."
    AWAITING_PROMOTION = "AwaitingPromotion", "The candidate passed its checks and waits for a person."
    PROMOTED = "Promoted", "The Service was flipped to the candidate."
    ACTIVE_UNHEALTHY = "ActiveUnhealthy", "The Service was flipped while the active colour had no ready pod."
    SPEC_CHANGED = (
        "SpecChanged",
        "The spec changed while the candidate was checked; a new attempt replaces it.",
    )
    SPEC_REVERTED = "SpecReverted", "The spec was put back to the revision that serves or served."
    SUPERSEDED = (
        "Superseded",
        "A third revision was asked for in the soak, and whenSpecChangesInSoak is Supersede.",
    )
    QUEUED = "Queued", "A third revision waits for the verdict on the present one."
    # soak
    SOAKING = "Soaking", "The new active colour is watched."
    NO_DATA = "NoData", "Neither Prometheus nor the pods give usable metrics."
    METRICS_UNAVAILABLE = (
        "MetricsUnavailable",
        "The flip waits: neither Prometheus nor the pods give usable metrics.",
    )
    METRICS_AVAILABLE = "MetricsAvailable", "Metrics are read."
    BREACH = "Breach", "A metric breached its limit."
    SHARED_CAUSE = (
        "SharedCause",
        "Both colours breach the same metric at once: the cause is not the new revision.",
    )
    ALERT = "Alert", "Alertmanager reported a firing alert for the digest that serves."
    DEGRADED = "Degraded", "Answers are cut at 128 tokens until the judge passes the revision."
    RECOVERED = "Recovered", "The judge passed the revision while its answers were cut; they are whole again."
    OVERRULED = "Overruled", "A person promoted the revision although it was held."
    POD_OUTLIER = "PodOutlier", "The evidence is against the new colour, and does not show whether it is only one pod."
    RETURNING = "Returning", "A revision of the history is brought up again, to go back to it."
    NO_PREVIOUS = "NoPrevious", "The active colour is bad, and there is nothing healthy to go back to."
    # a candidate's end
    ABORTED = "Aborted", "A person ended the attempt with rollout.abort."
    EVALUATION_FAILED = "EvaluationFailed", "The model's perplexity on its own evaluation set is beyond the limit."
    SMOKE_FAILED = "SmokeFailed", "The smoke inference answered wrongly."
    PROGRESS_DEADLINE_EXCEEDED = (
        "ProgressDeadlineExceeded",
        "The attempt took longer than progressDeadlineSeconds.",
    )
    CRASH_LOOP = "CrashLoop", "A container of the candidate restarts again and again."
    OOM_KILLED = "OOMKilled", "A container of the candidate was killed for memory."
    IMAGE_PULL_FAILED = "ImagePullFailed", "The runtime image cannot be pulled."
    POD_CONFIG_INVALID = "PodConfigInvalid", "The kubelet cannot build a container of the candidate."
    EVICTED = "Evicted", "A pod of the candidate was evicted."
    PODS_NOT_READY = "PodsNotReady", "The new active colour lost all its ready pods."
    ROLLED_BACK = "RolledBack", "The Service was flipped back to the previous colour."
    # as containers give up
    DIGEST_MISMATCH = GaveUp.DIGEST_MISMATCH, "Bytes in storage are not the ones that the digest names."
    MODEL_NOT_FOUND = GaveUp.MODEL_NOT_FOUND, "The uri has no such object."
    CREDENTIALS_REJECTED = GaveUp.CREDENTIALS_REJECTED, "The storage refused the credentials."
    STORAGE_UNREACHABLE = GaveUp.STORAGE_UNREACHABLE, "The storage does not answer."
    ENDPOINT_REFUSED = GaveUp.ENDPOINT_REFUSED, "The storage endpoint is an address that is not allowed."
    INSUFFICIENT_STORAGE = GaveUp.INSUFFICIENT_STORAGE, "The node has no room for the model's files."
    MANIFEST_INVALID = GaveUp.MANIFEST_INVALID, "The object manifest.json is not a manifest."
    HARDWARE_MISMATCH = (
        GaveUp.HARDWARE_MISMATCH,
        "The hardware is not the one that the model was qualified on.",
    )
    MODEL_INVALID = GaveUp.MODEL_INVALID, "The weights do not fit the model's configuration."
    OUT_OF_MEMORY = GaveUp.OUT_OF_MEMORY, "The model does not fit into the device's memory."
    SETTINGS_INVALID = GaveUp.SETTINGS_INVALID, "A setting of the runtime is wrong."
    INTERNAL_ERROR = GaveUp.INTERNAL, "A defect; the message has its text."
    # the operator's own
    SPEC_INVALID = "SpecInvalid", "The stored spec is not valid under the installed version."
    NAME_TAKEN = "NameTaken", "An object with a child's name exists and belongs to somebody else."
    SELECTOR_RESTORED = "SelectorRestored", "Somebody else changed the Service's selector; it was put back."
    READY = "Ready", "The Service has ready endpoints."
    NOT_READY = "NotReady", "The Service has no ready endpoint."
    AT_REST = "AtRest", "No rollout is under way."
    TERMINATING = "Terminating", "The resource is being deleted."
