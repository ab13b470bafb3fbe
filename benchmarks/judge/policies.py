"""Ways of judging: from a soak to the window (from 1) after which the candidate is sent back, or None."""

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from backstay_contract.evidence import EvidenceSource, VerdictKind
from backstay_contract.metric import MetricName
from backstay_judge import Counts, Coverage, PodReading, Settings, add, begin, judge, log_e_beyond

from benchmarks.judge.soaks import Soak, Window, p99

FLIP = datetime(2026, 1, 1, tzinfo=UTC)
KAYENTA_CONFIDENCE_Z = 2.326
"""Of the 98 % interval that Kayenta's judge takes."""
KAYENTA_TOLERANCE = 0.25
KAYENTA_POINTS = 5
"""Points a metric must have before it is judged; its documentation asks for 50."""

Policy = Callable[[Soak], int | None]


def _is_bad(soak: Soak, window: Window) -> bool:
    """What a query and a threshold say of one window."""
    if soak.limit.metric is MetricName.ERROR_RATE:
        return sum(window) / len(window) > soak.limit.value
    return p99(window) > soak.limit.value


def _bad(soak: Soak) -> Iterator[bool]:
    return (_is_bad(soak, window) for window in soak.candidate)


def single_breach(soak: Soak) -> int | None:
    """One window beyond the limit."""
    return next((number for number, bad in enumerate(_bad(soak), start=1) if bad), None)


def three_in_a_row(soak: Soak) -> int | None:
    """Three such windows in a row."""
    row = 0
    for number, bad in enumerate(_bad(soak), start=1):
        row = row + 1 if bad else 0
        if row == 3:
            return number
    return None


def four_failures(soak: Soak) -> int | None:
    """Four such windows in all: a failure limit."""
    failures = 0
    for number, bad in enumerate(_bad(soak), start=1):
        failures += bad
        if failures == 4:
            return number
    return None


def minimum_1000(soak: Soak) -> int | None:
    """All requests so far as one window, from 1,000 requests on."""
    seen: list[float] = []
    for number, window in enumerate(soak.candidate, start=1):
        seen += window
        if len(seen) >= 1000 and _is_bad(soak, seen):
            return number
    return None


def mann_whitney(soak: Soak) -> int | None:
    """A window's requests slower than the baseline's at p < 0.01, one-sided: "different", not "beyond the limit"."""
    from scipy.stats import mannwhitneyu  # noqa: PLC0415 - only the benchmark's own environment has it

    if len({len(window) for window in (*soak.candidate, *soak.baseline)}) == 1:  # all windows in one call
        found = mannwhitneyu(soak.candidate, soak.baseline, alternative="greater", method="asymptotic", axis=1).pvalue
        return next((number for number, p in enumerate(found, start=1) if p < 0.01), None)
    for number, (new, old) in enumerate(zip(soak.candidate, soak.baseline, strict=True), start=1):
        if mannwhitneyu(new, old, alternative="greater", method="asymptotic").pvalue < 0.01:
            return number
    return None


def kayenta(soak: Soak) -> int | None:
    """Kayenta's classifier over the windows' statistics so far, asked after each window.

    High where the 98 % interval of the shift (Mann-Whitney) lies above a quarter of its estimate.
    """
    new: list[float] = []
    old: list[float] = []
    for number, (one, other) in enumerate(zip(soak.candidate, soak.baseline, strict=True), start=1):
        new.append(_statistic(soak, one))
        old.append(_statistic(soak, other))
        if number >= KAYENTA_POINTS and _is_high(new, old):
            return number
    return None


def _statistic(soak: Soak, window: Window) -> float:
    return sum(window) / len(window) if soak.limit.metric is MetricName.ERROR_RATE else p99(window)


def _is_high(new: list[float], old: list[float]) -> bool:
    shifts = sorted(one - other for one in new for other in old)
    count = len(shifts)
    middle = shifts[count // 2]
    deviation = math.sqrt(count * (len(new) + len(old) + 1) / 12)
    lowest = max(0, math.floor(count / 2 - KAYENTA_CONFIDENCE_Z * deviation))
    return shifts[lowest] > KAYENTA_TOLERANCE * abs(middle)


def counts_only(soak: Soak) -> int | None:
    """The sequential test on counts alone, without windows, dispersion or bets."""
    n = k = 0
    for number, window in enumerate(soak.candidate, start=1):
        n += len(window)
        k += _beyond(soak, window)
        if log_e_beyond(n, k, soak.limit.allowed_fraction) >= -math.log(Settings().alpha):
            return number
    return None


def backstay(soak: Soak) -> int | None:
    """Backstay's judge as the operator calls it, on one pod."""
    limit = soak.limit
    n = k = 0
    evidence = begin([limit], [_reading(soak, 0, 0, 0)], FLIP)
    for number, window in enumerate(soak.candidate, start=1):
        n += len(window)
        k += _beyond(soak, window)
        readings, now = [_reading(soak, n, k, number)], FLIP + timedelta(seconds=number)
        evidence = add(evidence, readings, now, 1.0)
        coverage = Coverage(ready=frozenset(("pod",)), readings=readings)
        if judge({limit.metric: limit.value}, evidence, coverage, now, Settings()).verdict is VerdictKind.BREACH:
            return number
    return None


def _beyond(soak: Soak, window: Window) -> int:
    if soak.limit.metric is MetricName.ERROR_RATE:
        return round(sum(window))
    return sum(value > soak.limit.value for value in window)


def _reading(soak: Soak, n: int, k: int, second: int) -> PodReading:
    counts = {soak.limit.metric: Counts(soak.limit.value, 1.0, n, k, k, "series")}
    return PodReading("pod", EvidenceSource.PODS, FLIP + timedelta(seconds=second), counts, {})


POLICIES: dict[str, Policy] = {
    "single breach": single_breach,
    "three in a row": three_in_a_row,
    "four failures": four_failures,
    "minimum 1000": minimum_1000,
    "Mann-Whitney": mann_whitney,
    "Kayenta": kayenta,
    "counts only": counts_only,
    "backstay": backstay,
}
