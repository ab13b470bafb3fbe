"""A whole sweep: the undisturbed runs first, then every point, each told as a line."""

import time
from collections.abc import Callable, Sequence

from tests.integration.crash import judging
from tests.integration.crash.plays import Play, behave
from tests.integration.crash.proxy import When
from tests.integration.crash.sweep import Outcome, Point, Stage, points, run_all


class NoReferenceError(Exception):
    """An undisturbed run did not end well, so nothing can be compared with it."""


def sweep(stage: Stage, plays: Sequence[Play], *, lanes: int, every: int, tell: Callable[[str], None]) -> int:
    """The number of points whose end differs from the undisturbed run's."""
    began = time.monotonic()
    behave(stage.kubelet)
    references = {play.name: outcome for play, outcome in _references(stage, plays, lanes, tell)}
    chosen = [point for play in plays for point in points(play, references[play.name].writes, every)]
    tell(f"{len(chosen)} points, {lanes} at a time")

    def told(outcome: Outcome) -> None:
        tell(judging.line(outcome, judging.fault(outcome, references[outcome.point.play.name])))

    outcomes = run_all(stage, chosen, lanes, told)
    faults = sum(bool(judging.fault(outcome, references[outcome.point.play.name])) for outcome in outcomes)
    tell(judging.summary(outcomes, faults, time.monotonic() - began))
    return faults


def _references(
    stage: Stage, plays: Sequence[Play], lanes: int, tell: Callable[[str], None]
) -> list[tuple[Play, Outcome]]:
    outcomes = run_all(stage, [Point(play, 0, When.BEFORE) for play in plays], lanes, lambda _: None)
    for outcome in outcomes:
        if outcome.problem:
            raise NoReferenceError(f"{outcome.point.play.name}: {outcome.problem}")
        tell(f"{outcome.point.play.name}: {outcome.writes} writes undisturbed, {outcome.seconds:.1f} s")
    return [(outcome.point.play, outcome) for outcome in outcomes]
