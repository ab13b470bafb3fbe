"""Why the nodes cannot take a candidate: a reason and a sentence that names what was seen."""

from collections.abc import Sequence
from dataclasses import dataclass

from backstay_contract.reasons import Reason

MOST = 3
"""Names in a list."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """The candidate waits for nodes: nothing is made for it, and what serves stays."""

    reason: Reason
    message: str


def listed(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(sorted(names)[:MOST]) + more
