"""Whether a disturbed run ended as the undisturbed one. Pure."""

from collections.abc import Sequence

from tests.integration.crash import end_state
from tests.integration.crash.sweep import Outcome


def fault(outcome: Outcome, undisturbed: Outcome) -> str:
    """What is wrong with a run; empty where it ended as the undisturbed one did and told the same, each thing once."""
    if outcome.problem:
        return outcome.problem
    if differs := end_state.difference(undisturbed.state, outcome.state):
        return differs
    if more := outcome.events - undisturbed.events:
        return f"told once too often: {dict(more)}"
    if fewer := undisturbed.events - outcome.events:
        return f"not told: {dict(fewer)}"
    return ""


def line(outcome: Outcome, wrong: str) -> str:
    """What is printed of a point."""
    point = outcome.point
    at = str(outcome.write) if outcome.write else f"(only {outcome.writes} writes)"
    said = "same" if not wrong else f"DIFFERENT: {wrong}"
    return f"{point.play.name:17} {point.number:3} {point.when:6}  {at:45} {said}  {outcome.seconds:.1f} s"


def summary(outcomes: Sequence[Outcome], faults: int, seconds: float) -> str:
    """The last line."""
    reached = sum(outcome.write is not None for outcome in outcomes)
    return f"{len(outcomes)} runs, {reached} of them killed, in {seconds:.0f} s: {faults} ended differently"
