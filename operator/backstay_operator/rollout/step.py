"""What an action wants: changes to the memory, perhaps a flip, and a sentence that says why."""

from dataclasses import dataclass, field
from typing import Any

from backstay_contract.reasons import Reason

from backstay_operator.rollout.observation import FlipRecord


@dataclass(frozen=True, slots=True)
class Step:
    """`changes` are fields of the status; `reason` replaces the row's where the facts know it better."""

    sentence: str
    changes: dict[str, Any] = field(default_factory=dict)
    flip: FlipRecord | None = None
    reason: Reason | None = None

    def __or__(self, more: dict[str, Any]) -> "Step":
        """The step with more changes."""
        return Step(self.sentence, self.changes | more, self.flip, self.reason)
