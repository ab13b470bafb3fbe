"""What a pass wants done: a plain value that the shell carries out."""

from collections.abc import Mapping
from dataclasses import dataclass

from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, ModelDeploymentStatus

from backstay_operator.rollout.observation import FlipRecord, WatchRound
from backstay_operator.rollout.revision import Wanted


@dataclass(frozen=True, slots=True)
class Flip:
    """The one write that moves the Service's selector."""

    expected: Colour | None
    """The colour that the selector must still have; None: it selects nothing yet."""
    record: FlipRecord


@dataclass(frozen=True, slots=True)
class ColourPlan:
    """What one colour's Deployment shall be."""

    replicas: int
    build: Wanted | None = None
    """Render the Deployment for this revision and attempt; None: leave the template exactly as it is."""
    attempt: str = ""
    anew: bool = False
    """Delete the Deployment first, and build it in a later pass: it would wait for pods that never end."""
    mode: str | None = None
    """What its pods' control port shall be set to; None: leave it."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell people once. `id` is the same for the same attempt and transition."""

    id: str
    reason: Reason
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """One pass's outcome. `reason` and `sentence` say why, always."""

    status: ModelDeploymentStatus
    selector: Colour | None
    """The colour that the active Service shall select."""
    preview: Colour | None
    """The colour that the preview Service shall select; None at rest."""
    colours: Mapping[Colour, ColourPlan]
    reason: Reason
    sentence: str
    flip: Flip | None = None
    events: tuple[Event, ...] = ()
    watch: WatchRound | None = None
    """To be handed to the next pass."""
    look_again: float | None = None
    """Seconds until the next pass even if nothing changes; None: only when something does."""
