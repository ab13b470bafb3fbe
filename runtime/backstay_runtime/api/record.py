"""What is remembered of a request until its end record is written."""

from dataclasses import dataclass

from backstay_runtime.api.service import Served
from backstay_runtime.telemetry.tracker import Tracker


@dataclass(slots=True)
class Record:
    """Filled in along the request's way; the outermost layer writes it down, once."""

    trace_id: str
    arrival: float
    """Seconds of `time.monotonic`."""
    tracker: Tracker | None = None
    served: Served | None = None
    """The model that it was given to, once it was."""
    outcome: str | None = None
    """Set where the status alone does not tell: an error or a disconnect after the first byte."""
    reason: str | None = None
    """The error's code, or the choices' finish reasons."""
    stream: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
