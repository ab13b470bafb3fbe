"""Policies over soaks: how many are sent back, and after how many windows and requests."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.judge import soaks
from benchmarks.judge.policies import POLICIES
from benchmarks.judge.soaks import SHARED, Soak

FACTORS = (1.0, 1.5, 2.0, 3.0, 6.0, 10.0)
ERROR_RATES = (0.001, 0.002, 0.01, 0.05, 0.2)
CLUMPS = (1, 5)


@dataclass(frozen=True)
class Case:
    """One kind of soak; those of a scenario stand beside each other in a table."""

    scenario: str
    model: str
    """What the candidate is like, for the table's head."""
    allowed: bool
    """Whether the limit allows it, so that sending it back is false."""
    soak: Callable[[random.Random], Soak]


@dataclass(frozen=True)
class Cell:
    """What a policy did with one kind of soak."""

    policy: str
    scenario: str
    model: str
    allowed: bool
    sent_back: float
    """Fraction of the soaks."""
    windows: float | None
    """Median windows until then."""
    requests: float | None
    """Median requests until then."""


def cases(traces: dict[str, soaks.Trace]) -> Iterator[Case]:
    """Every kind of soak that is measured."""
    for requests in (5, 30, 100):
        for shared, load in ((0.0, "independent requests"), (SHARED, "correlated load")):
            for factor in FACTORS:
                name = f"simulated, {requests} requests a window, {load}"
                yield Case(name, f"{factor:g}x", factor <= 2, soaks.simulated(requests, shared, factor))
    for trace in (traces[name] for name in ("steady", "bursty") if name in traces):
        for factor in FACTORS:
            name = f"recorded, {trace.name} load, against its own P99"
            yield Case(name, f"{factor:g}x", factor <= 2, soaks.recorded(trace, factor, trace))
    for trace in traces.values():
        if trace.name != "steady":
            steady = traces["steady"]
            times = trace.p99 / steady.p99
            yield Case(
                "recorded, as it was, against the steady run's P99",
                f"{trace.name} ({times:.1f}x)",
                times <= 2,
                soaks.recorded(trace, 1.0, steady),
            )
    for clump in CLUMPS:
        for rate in ERROR_RATES:
            alike = "independent errors" if clump == 1 else f"errors in bursts of {clump}"
            name = f"simulated, 30 requests a window, {alike}, at most 0.2 % may"
            yield Case(name, f"{rate:.1%}", rate <= 0.002, soaks.failing(30, rate, clump))


def measure(found: Sequence[Case], runs: int, seed: int) -> Iterator[Cell]:
    """Every policy on every case; all see the same soaks."""
    for case in found:
        rng = random.Random(f"{seed} {case.scenario} {case.model}")  # noqa: S311 - a simulation
        ends: dict[str, list[tuple[int, int]]] = {name: [] for name in POLICIES}
        for _ in range(runs):
            soak = case.soak(rng)
            for name, policy in POLICIES.items():
                window = policy(soak)
                if window is not None:
                    ends[name].append((window, sum(map(len, soak.candidate[:window]))))
        for name, sent_back in ends.items():
            windows = median(window for window, _ in sent_back) if sent_back else None
            requests = median(count for _, count in sent_back) if sent_back else None
            yield Cell(name, case.scenario, case.model, case.allowed, len(sent_back) / runs, windows, requests)


@dataclass(frozen=True)
class Loss:
    """A rival that is better than Backstay where both were asked for the same."""

    rival: str
    scenario: str
    what: str


def losses(cells: Sequence[Cell], runs: int) -> list[Loss]:
    """Rivals that find a 6x shift as surely as Backstay and send back fewer models that the limit allows.

    Fewer is what chance does not explain: three standard errors of the difference.
    """
    by_key = {(cell.policy, cell.scenario, cell.model): cell.sent_back for cell in cells}
    found = []
    for scenario in dict.fromkeys(cell.scenario for cell in cells if cell.model == "6x"):
        for rival in (name for name in POLICIES if name != "backstay"):
            if _is_less(by_key[rival, scenario, "6x"], by_key["backstay", scenario, "6x"], runs):
                continue
            for model in [
                cell.model for cell in cells if (cell.policy, cell.scenario) == (rival, scenario) and cell.allowed
            ]:
                theirs, ours = by_key[rival, scenario, model], by_key["backstay", scenario, model]
                if _is_less(theirs, ours, runs):
                    found.append(Loss(rival, scenario, f"{model}: sends back {theirs:.1%}, Backstay {ours:.1%}"))
    return found


def _is_less(one: float, other: float, runs: int) -> bool:
    mean = (one + other) / 2
    return other - one > 3 * math.sqrt(2 * mean * (1 - mean) / runs)
