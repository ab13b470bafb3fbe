"""How often ways of judging a rollout send a good model back, and how soon they find a bad one.

    uv run python benchmarks/judge.py            # a table, about a minute
    uv run python benchmarks/judge.py -o json    # the same numbers for scripts
    uv run python benchmarks/judge.py --runs 1500 --requests 30

A run is a soak of 20 windows. Latencies are log-normal (sigma 0.8), the limit is twice the baseline's P99, and the
model's latencies are the baseline's times a factor: up to 2 the limit allows it. With correlated load, a part of the
log's variance is the whole window's. All see the same latencies; the rivals see each, Backstay only counts.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from statistics import NormalDist, median

from backstay_contract.evidence import EvidenceSource, VerdictKind
from backstay_contract.metric import MetricName
from backstay_judge import (
    Counts,
    Coverage,
    PodReading,
    Settings,
    add,
    begin,
    judge,
    limit_on_requests,
    log_e_beyond,
)

SIGMA = 0.8
BASELINE_P99 = math.exp(NormalDist().inv_cdf(0.99) * SIGMA)
LIMIT = 2 * BASELINE_P99
WINDOWS = 20
SHARED = 0.3
"""Part of the variance that a window's requests share, with correlated load."""
FACTORS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0)
METRIC = limit_on_requests(MetricName.P99_LATENCY, LIMIT)
FLIP = datetime(2026, 1, 1, tzinfo=UTC)

Window = list[float]
Policy = Callable[[Sequence[Window], Sequence[Window]], int | None]
"""From the windows of the candidate and of the baseline to the window (from 1) after which it is sent back, or None."""


def latencies(rng: random.Random, requests: int, factor: float, shared: float) -> list[Window]:
    """A soak's windows; `shared` is the part of the variance that requests of one window have in common."""
    windows = []
    for _ in range(WINDOWS):
        load = math.sqrt(shared) * rng.gauss()
        own = math.sqrt(1 - shared)
        windows.append([factor * math.exp(SIGMA * (load + own * rng.gauss())) for _ in range(requests)])
    return windows


def p99(window: Sequence[float]) -> float:
    """The 99th percentile, interpolated between the two nearest requests."""
    ordered = sorted(window)
    position = 0.99 * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def beyond(windows: Sequence[Window]) -> Iterator[bool]:
    """Whether each window's P99 is beyond the limit."""
    return (p99(window) > LIMIT for window in windows)


def single_breach(candidate: Sequence[Window], _: Sequence[Window]) -> int | None:
    """One window whose P99 is beyond the limit."""
    return next((number for number, bad in enumerate(beyond(candidate), start=1) if bad), None)


def three_in_a_row(candidate: Sequence[Window], _: Sequence[Window]) -> int | None:
    """Three such windows in a row."""
    row = 0
    for number, bad in enumerate(beyond(candidate), start=1):
        row = row + 1 if bad else 0
        if row == 3:
            return number
    return None


def four_failures(candidate: Sequence[Window], _: Sequence[Window]) -> int | None:
    """Four such windows in all."""
    failures = 0
    for number, bad in enumerate(beyond(candidate), start=1):
        failures += bad
        if failures == 4:
            return number
    return None


def minimum_1000(candidate: Sequence[Window], _: Sequence[Window]) -> int | None:
    """The P99 of all requests so far, from 1,000 requests on."""
    seen: list[float] = []
    for number, window in enumerate(candidate, start=1):
        seen += window
        if len(seen) >= 1000 and p99(seen) > LIMIT:
            return number
    return None


def mann_whitney(candidate: Sequence[Window], baseline: Sequence[Window]) -> int | None:
    """A window slower than the baseline's at p < 0.01, one-sided: "different" instead of "beyond the limit"."""
    for number, (new, old) in enumerate(zip(candidate, baseline, strict=True), start=1):
        ranked = sorted([(value, 1) for value in new] + [(value, 0) for value in old])
        ranks = sum(rank for rank, (_, is_new) in enumerate(ranked, start=1) if is_new)
        u = ranks - len(new) * (len(new) + 1) / 2
        mean = len(new) * len(old) / 2
        deviation = math.sqrt(mean * (len(new) + len(old) + 1) / 6)
        if (u - mean) / deviation > NormalDist().inv_cdf(0.99):
            return number
    return None


def counts_only(candidate: Sequence[Window], _: Sequence[Window]) -> int | None:
    """The sequential test on counts alone, without windows, dispersion or bets."""
    n = k = 0
    for number, window in enumerate(candidate, start=1):
        n += len(window)
        k += sum(value > LIMIT for value in window)
        if log_e_beyond(n, k, METRIC.allowed_fraction) >= -math.log(Settings().alpha):
            return number
    return None


def backstay(candidate: Sequence[Window], _: Sequence[Window]) -> int | None:
    """Backstay's judge as the operator calls it, on one pod."""
    n = k = 0
    evidence = begin([METRIC], [_reading(0, 0, 0)], FLIP)
    for number, window in enumerate(candidate, start=1):
        n += len(window)
        k += sum(value > LIMIT for value in window)
        readings, now = [_reading(n, k, number)], FLIP + timedelta(seconds=number)
        evidence = add(evidence, readings, now, 1.0)
        coverage = Coverage(ready=frozenset(("pod",)), readings=readings)
        if judge({METRIC.metric: LIMIT}, evidence, coverage, now, Settings()).verdict is VerdictKind.BREACH:
            return number
    return None


def _reading(n: int, k: int, second: int) -> PodReading:
    counts = {METRIC.metric: Counts(LIMIT, 1.0, n, k, k, "series")}
    return PodReading("pod", EvidenceSource.PODS, FLIP + timedelta(seconds=second), counts, {})


POLICIES: dict[str, Policy] = {
    "single breach": single_breach,
    "three in a row": three_in_a_row,
    "four failures": four_failures,
    "minimum 1000": minimum_1000,
    "Mann-Whitney": mann_whitney,
    "counts only": counts_only,
    "backstay": backstay,
}


@dataclass(frozen=True)
class Cell:
    """What a policy did with one kind of model."""

    policy: str
    requests: int
    correlated: bool
    factor: float
    allowed: bool
    """Whether the limit allows this model, so that sending it back is false."""
    sent_back: float
    """Fraction of the runs."""
    window: float | None
    """Median window of those."""


def measure(runs: int, requests: Sequence[int], seed: int) -> Iterator[Cell]:
    """Every cell; all policies see the same soaks."""
    for count in requests:
        for shared in (0.0, SHARED):
            for factor in FACTORS:
                rng = random.Random(f"{seed} {count} {shared} {factor}")  # noqa: S311 - a simulation
                found: dict[str, list[int]] = {name: [] for name in POLICIES}
                for _ in range(runs):
                    candidate = latencies(rng, count, factor, shared)
                    baseline = latencies(rng, count, 1.0, shared)
                    for name, policy in POLICIES.items():
                        window = policy(candidate, baseline)
                        if window is not None:
                            found[name].append(window)
                for name, windows in found.items():
                    middle = median(windows) if windows else None
                    rate = len(windows) / runs
                    yield Cell(name, count, shared > 0, factor, factor <= 2, rate, middle)


def table(cells: Sequence[Cell]) -> str:
    """The cells for reading: per kind of load, a line per policy and a column per factor."""
    lines = []
    for requests, correlated in dict.fromkeys((cell.requests, cell.correlated) for cell in cells):
        load = "correlated load" if correlated else "independent requests"
        lines += ["", f"{requests} requests per window, {load}: sent back (median window); up to 2x is allowed"]
        lines.append(f"{'':16}" + "".join(f"{f'{factor:g}x':>14}" for factor in FACTORS))
        for policy in POLICIES:
            row = [c for c in cells if (c.policy, c.requests, c.correlated) == (policy, requests, correlated)]
            lines.append(f"{policy:16}" + "".join(f"{_shown(cell):>14}" for cell in row))
    return "\n".join(lines[1:])


def _shown(cell: Cell) -> str:
    return f"{cell.sent_back:.1%}" + (f" ({cell.window:g})" if cell.window is not None else "")


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=300, help="soaks per cell (default: 300)")
    parser.add_argument("--requests", type=int, action="append", help="requests per window; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = parser.parse_args(arguments)
    cells = list(measure(given.runs, given.requests or [5, 30, 100], given.seed))
    if given.output == "json":
        document = {"runs": given.runs, "windows": WINDOWS, "seed": given.seed, "cells": [asdict(c) for c in cells]}
        print(json.dumps(document, indent=1))  # noqa: T201
    else:
        print(table(cells))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
