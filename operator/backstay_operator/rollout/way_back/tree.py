"""The decision tree of the way back: which troubles there are, and what the rules say is done about them."""

from collections.abc import Sequence
from dataclasses import dataclass

from backstay_contract.metric import MetricName
from backstay_contract.reasons import Reason
from backstay_contract.rollback import Action, ModeThere, Rule, Target, Trigger


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong with the revision that serves."""

    reason: Reason
    message: str
    trigger: Trigger | None = None
    """What a rule may name it by; None for hard guards that no rule can name, such as pods that died."""
    metric: MetricName | None = None
    observed: float | None = None
    limit: float | None = None

    @property
    def hard(self) -> bool:
        """Whether it is a hard guard, which needs no statistics."""
        return self.trigger in (None, Trigger.HARDWARE_MISMATCH)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is to be done, and about which trouble."""

    trouble: Trouble
    do: Action = Action.ROLLBACK
    to: Target = Target.PREVIOUS
    mode: ModeThere = ModeThere.NORMAL


def answer(rules: Sequence[Rule], troubles: Sequence[Trouble]) -> Answer | None:
    """The first rule in the list whose trouble is there decides; without one, back to the previous revision.

    A rule that stays is not followed while a hard guard is up that no rule speaks of: what is dead cannot be stayed on.
    """
    if not troubles:
        return None
    unnamed = next((t for t in troubles if t.hard and all(rule.on is not t.trigger for rule in rules)), None)
    for rule in rules:
        named = next((t for t in troubles if t.trigger is rule.on), None)
        if named is None:
            continue
        if unnamed is not None and rule.do is not Action.ROLLBACK:
            return Answer(unnamed)
        return Answer(named, rule.do, rule.to, rule.mode)
    return Answer(unnamed or troubles[0])
