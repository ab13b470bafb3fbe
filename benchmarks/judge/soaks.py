"""Soaks to judge: simulated latencies, recorded ones, and errors. What a policy sees is a list of windows of values.

Simulated latencies are log-normal (sigma 0.8); with correlated load, a part of the log's variance is the whole
window's. Recorded ones are blocks of windows of a real trace, drawn again and again, so that what neighbouring windows
share stays as it was. A factor makes a model slower than its baseline.
"""

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from backstay_contract.metric import MetricName, limit_of
from backstay_judge import Limit, limit_on_requests

SIGMA = 0.8
BASELINE_P99 = math.exp(NormalDist().inv_cdf(0.99) * SIGMA)
WINDOWS = 20
SHARED = 0.3
"""Part of the variance that a window's requests share, with correlated load."""
BLOCK = 4
"""Windows of a trace that stay together when it is drawn from."""
WINDOW_SECONDS = 2.0
"""Of a recorded trace."""
RECORDED_ERROR_RATE = 0.001
TRACES = Path(__file__).parent / "traces.json"

Window = Sequence[float]


@dataclass(frozen=True)
class Soak:
    """The windows of the candidate and, beside them, of the baseline."""

    candidate: Sequence[Window]
    baseline: Sequence[Window]
    limit: Limit


def p99(values: Sequence[float]) -> float:
    """The 99th percentile, interpolated between the two nearest requests."""
    ordered = sorted(values)
    position = 0.99 * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def latencies(rng: random.Random, requests: int, factor: float, shared: float) -> list[list[float]]:
    """A simulated soak's windows; `shared` is the part of the variance that requests of one window have in common."""
    windows = []
    for _ in range(WINDOWS):
        load = math.sqrt(shared) * rng.gauss()
        own = math.sqrt(1 - shared)
        windows.append([factor * math.exp(SIGMA * (load + own * rng.gauss())) for _ in range(requests)])
    return windows


def simulated(requests: int, shared: float, factor: float) -> Callable[[random.Random], Soak]:
    """Latencies with a limit of twice the baseline's P99."""
    limit = limit_on_requests(MetricName.P99_LATENCY, 2 * BASELINE_P99)
    return lambda rng: Soak(latencies(rng, requests, factor, shared), latencies(rng, requests, 1.0, shared), limit)


def failing(requests: int, rate: float, clump: int) -> Callable[[random.Random], Soak]:
    """Errors (1 for a failed request) at a mean rate, in bursts of so many requests, against a limit of the error rate.

    A burst of one request is an independent error.
    """
    limit = limit_on_requests(MetricName.ERROR_RATE, limit_of(MetricName.ERROR_RATE, RECORDED_ERROR_RATE, 2.0))

    def windows(rng: random.Random, of: float) -> list[list[float]]:
        flat: list[float] = []
        while len(flat) < WINDOWS * requests:
            flat += [1.0] * clump if rng.random() < of / (clump - of * (clump - 1)) else [0.0]
        return [flat[start : start + requests] for start in range(0, WINDOWS * requests, requests)]

    return lambda rng: Soak(windows(rng, rate), windows(rng, RECORDED_ERROR_RATE), limit)


@dataclass(frozen=True)
class Trace:
    """A recorded run of the real runtime under load."""

    name: str
    windows: tuple[tuple[float, ...], ...]
    """Latencies in milliseconds, by the window in which the request ended."""

    @property
    def p99(self) -> float:
        return p99([value for window in self.windows for value in window])


def read_traces(path: Path = TRACES) -> dict[str, Trace]:
    """The recorded traces by name. A window in which nothing ended is none."""
    said = json.loads(path.read_text())
    found = {}
    for name, requests in said["runs"].items():
        by_window: dict[int, list[float]] = {}
        for ended, milliseconds in requests:
            by_window.setdefault(int(ended / WINDOW_SECONDS), []).append(float(milliseconds))
        found[name] = Trace(name, tuple(tuple(by_window[number]) for number in sorted(by_window)))
    return found


def recorded(trace: Trace, factor: float, baseline: Trace, tolerance: float = 2.0) -> Callable[[random.Random], Soak]:
    """Soaks drawn from a trace, `factor` times as slow, judged by another's P99 × tolerance."""
    limit = limit_on_requests(MetricName.P99_LATENCY, limit_of(MetricName.P99_LATENCY, baseline.p99, tolerance))

    def soak(rng: random.Random) -> Soak:
        slower = [[factor * value for value in window] for window in _drawn(rng, trace)]
        return Soak(slower, _drawn(rng, baseline), limit)

    return soak


def _drawn(rng: random.Random, trace: Trace) -> list[Window]:
    found: list[Window] = []
    while len(found) < WINDOWS:
        start = rng.randrange(max(1, len(trace.windows) - BLOCK + 1))
        found += trace.windows[start : start + BLOCK]
    return found[:WINDOWS]
