"""What people's levers lead to: rollout.paused, abort and rollbackTo."""

from backstay_contract.reasons import Reason

from backstay_operator.conditions import Wanted as Condition
from backstay_operator.rollout.actions.giving_up import rejection
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.step import Step
from backstay_operator.rollout.wording import ABORTED, name_of, open_attempt_of, remember


def wait_for_resume(facts: Facts) -> Step:
    """At rest, and another revision is asked for."""
    return Step(f"{name_of(facts.wanted.version, facts.wanted.digest)} waits: rollout.paused is true")


def hold_flip(facts: Facts) -> Step:
    attempt = open_attempt_of(facts)
    name = name_of(attempt.version, attempt.digest)
    return Step(f"{name} passed its checks and waits: rollout.paused is true", remember(facts))


def say_unknown(facts: Facts) -> Step:
    """Nothing changes until the name is mended: to roll on to what the rest of the spec says is not what was meant."""
    named = facts.spec.rollout.rollback_to
    known = [entry.revision for entry in facts.status.history if entry.recipe is not None]
    listed = f"status.history can build {', '.join(known)}" if known else "status.history can build none yet"
    return Step(f"rollout.rollbackTo: revision {named} is unknown; {listed}; empty it to serve what the spec asks for")


def reject_aborted(facts: Facts) -> Step:
    return rejection(facts, Reason.ABORTED, ABORTED)


def hold_aborted(facts: Facts) -> Step:
    """After the flip, and nothing to go back to: the digest is rejected all the same, and the attempt stays open until
    there is a way back."""
    rejected = rejection(facts, Reason.ABORTED, ABORTED).changes["rejected"]
    return Step(f"nothing healthy to go back to: {ABORTED}", remember(facts) | {"rejected": rejected})


def conditions(facts: Facts) -> list[Condition]:
    """What people's levers hold in place; nothing where none is pulled."""
    rollout, found = facts.spec.rollout, []
    if rollout.paused:
        found.append(Condition("Paused", "True", Reason.PAUSED, "rollout.paused is true: nothing goes forward"))
    if facts.pinned:
        asked = name_of(facts.asked.version, facts.asked.digest)
        said = f"rollout.rollbackTo names {rollout.rollback_to}; the rest of the spec asks for {asked}"
        found.append(Condition("Pinned", "True", Reason.PINNED, said))
    if facts.pin_is_unknown:
        found.append(Condition("Pinned", "False", Reason.REVISION_UNKNOWN, say_unknown(facts).sentence))
    return found
