"""The sequence of a benchmark: the knee with busy users, then the baselines with thinking ones."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from backstay_contract.manifest import RecordedBaseline
from backstay_contract.measurement import MAX_ERROR_RATE, MIN_SAMPLES, Measurement, Span
from backstay_contract.metric import KINDS, MetricName
from backstay_contract.profile import HardwareProfile

from backstay_cli.bench import figures, mix, users
from backstay_cli.bench.figures import Answer, Figure, Step
from backstay_cli.bench.mix import Scale
from backstay_cli.bench.users import BUSY, Ask, Load, Think
from backstay_cli.errors import refused

LOAD_AT_KNEE = 0.7
"""Of the knee's batch size: what the baselines are measured at. At the knee itself a small change is a long queue."""
MAX_USERS = 512

Tell = Callable[[int], None]


class Plan(NamedTuple):
    """How a benchmark goes about it."""

    sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    step_seconds: float = 10.0
    requests: int = 400
    seconds: float = 1200.0
    """At most, for the baselines."""
    think: Think = users.THINKING
    seed: int = 1
    scale: Scale = Scale()


class Subject(NamedTuple):
    """What is measured."""

    content: str
    profile: HardwareProfile
    runtime_version: str


class Result(NamedTuple):
    """What a benchmark found."""

    steps: tuple[Step, ...]
    knee: int
    users: int
    concurrency: float
    figures: Mapping[MetricName, Figure]


def benchmark(ask: Ask, plan: Plan, tell: Callable[[str, int], Tell]) -> Result:
    """Runs it; `tell(what, requests)` begins a part. Raises CliError where the numbers would be worthless."""
    steps = sweep(ask, plan, tell)
    knee = figures.knee(steps)
    count = users_for(knee, next(one for one in steps if one.size == knee), plan.think)
    load = Load(count, plan.think, plan.seconds, plan.requests, plan.scale)
    answers = users.run(ask, load, plan.seed, tell(f"measuring with {count} users", plan.requests))
    check(answers)
    return Result(tuple(steps), knee, count, figures.concurrency(answers), figures.figures(answers))


def sweep(ask: Ask, plan: Plan, tell: Callable[[str, int], Tell]) -> list[Step]:
    """Ever larger batches, up to the first one beyond the knee."""
    steps: list[Step] = []
    for size in plan.sizes:
        began = time.monotonic()
        load = Load(size, BUSY, plan.step_seconds, scale=plan.scale)
        answers = users.run(ask, load, plan.seed, tell(f"batch of {size}", 0))
        steps.append(figures.step(size, answers, time.monotonic() - began))
        if steps[-1].errors == steps[-1].requests:
            break
        if len(steps) > 1 and figures.beyond_knee(steps[-2], steps[-1]):
            break
    if steps[0].errors == steps[0].requests:
        raise refused(f"all {steps[0].requests} requests of a single user failed; look at the server's log")
    return steps


def users_for(knee: int, step: Step, think: Think) -> int:
    """Thinking users that keep about LOAD_AT_KNEE of the knee's batch under way. Pure."""
    pause = (think.low + think.high) / 2
    busy = LOAD_AT_KNEE * knee
    if not math.isfinite(step.p50_seconds) or step.p50_seconds <= 0:
        return max(1, round(busy))
    return min(MAX_USERS, max(1, round(busy * (pause + step.p50_seconds) / step.p50_seconds)))


def check(answers: Sequence[Answer]) -> None:
    """Raises CliError where no baseline may be recorded."""
    failed = [answer.error for answer in answers if answer.error is not None]
    if len(answers) - len(failed) < MIN_SAMPLES:
        raise refused(
            f"{len(answers) - len(failed)} good answers are too few for a 99th percentile, {MIN_SAMPLES} are needed; "
            "raise --requests and --max-seconds"
        )
    if len(failed) > MAX_ERROR_RATE * len(answers):
        kinds = ", ".join(sorted({str(error) for error in failed}))
        raise refused(
            f"{len(failed)} of {len(answers)} requests failed ({kinds}), at most {MAX_ERROR_RATE:.0%} may; "
            "a benchmark of a server that fails is worthless"
        )


def baselines(
    result: Result, subject: Subject, tolerances: Mapping[MetricName, float], at: datetime
) -> dict[MetricName, RecordedBaseline]:
    """The figures as they are recorded. Pure."""
    return {
        metric: RecordedBaseline(
            value=_rounded(figure.value),
            unit=KINDS[metric].unit,
            **({"tolerance": tolerances[metric]} if metric in tolerances else {}),
            measured=Measurement(
                method="bench",
                samples=figure.samples,
                confidence=Span(low=_rounded(figure.low), high=_rounded(figure.high)),
                error_rate=_rounded(result.figures[MetricName.ERROR_RATE].value),
                concurrency=_rounded(result.concurrency),
                mix=mix.DESCRIPTION,
                at=at,
                runtime_version=subject.runtime_version,
                content=subject.content,
                profile=subject.profile,
            ),
        )
        for metric, figure in result.figures.items()
    }


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
