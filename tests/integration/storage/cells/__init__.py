"""Every fault on every way: what is done, and what must come of it. Each cell says its outcome in a few words."""

from . import answers, full, timing, wrong_bytes
from .registry import CELLS, WAYS, Cell, NotHereError

__all__ = ["CELLS", "FAULTS", "WAYS", "Cell", "NotHereError", "answers", "full", "timing", "wrong_bytes"]

FAULTS = tuple(dict.fromkeys(fault for fault, _ in CELLS))
