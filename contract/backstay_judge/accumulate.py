"""Evidence grows: from readings at the flip, look by look, to counts, windows and bets.

The counts depend only on the first and the last reading of each process, so looking more or less often gives the same n
and k. (A restart loses what the process counted after the last look; it never makes a negative or a double count.)
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from backstay_contract.evidence import MAX_PODS, MetricEvidence, PodCounter, Windows

from backstay_judge import betting, counters
from backstay_judge.readings import Counts, PodReading
from backstay_judge.settings import Limit

JITTER = 0.9
"""Share of a window's length after which it closes: polls that come a little early must not merge two windows."""


def begin(limits: Iterable[Limit], readings: Sequence[PodReading], now: datetime) -> tuple[MetricEvidence, ...]:
    """Empty evidence for each limit; `readings` and `now` are those of the flip, and nothing before it counts."""
    return tuple(
        MetricEvidence(
            metric=limit.metric,
            limit=limit.value,
            allowed_fraction=limit.allowed_fraction,
            since=now,
            born_after=now,
            at=now,
            windows=Windows(open_since=now, log_wealth=betting.begin()),
            pods=tuple(
                counters.base(reading, reading.counts[limit.metric])
                for reading in sorted(readings, key=lambda one: one.pod)[:MAX_PODS]
                if limit.metric in reading.counts
            ),
        )
        for limit in limits
    )


def add(
    evidence: Iterable[MetricEvidence], readings: Sequence[PodReading], now: datetime, window_seconds: float
) -> tuple[MetricEvidence, ...]:
    """The evidence after one more look. A window closes after about `window_seconds`, the interval of the soak."""
    return tuple(_add(one, readings, now, window_seconds) for one in evidence)


def _add(
    evidence: MetricEvidence, readings: Sequence[PodReading], now: datetime, window_seconds: float
) -> MetricEvidence:
    seen = [
        (reading, counts)
        for reading in sorted(readings, key=lambda one: one.pod)
        if (counts := reading.counts.get(evidence.metric)) and counts.limit == evidence.limit
    ]
    kept, born_after = _make_room(evidence, seen)
    pods = _counted(evidence, kept, seen)
    n, k, k_at_most = (
        after - before for before, after in zip(_totals(kept.values()), _totals(pods.values()), strict=True)
    )
    windows = evidence.windows.with_(open_n=evidence.windows.open_n + n, open_k=evidence.windows.open_k + k)
    if (now - windows.open_since).total_seconds() >= JITTER * window_seconds:
        windows = _close(windows, evidence.allowed_fraction, now)
    return evidence.with_(
        born_after=born_after,
        at=max(evidence.at, now),
        n=evidence.n + n,
        k=evidence.k + k,
        k_at_most=evidence.k_at_most + k_at_most,
        windows=windows,
        pods=tuple(pods[name] for name in sorted(pods)),
    )


def _counted(
    evidence: MetricEvidence, known: dict[str, PodCounter], seen: Sequence[tuple[PodReading, Counts]]
) -> dict[str, PodCounter]:
    """The pods after this look. Pods beyond MAX_PODS are left out, and the judge says NoData because of them."""
    pods = dict(known)
    for reading, counts in seen:
        before = pods.get(reading.pod)
        if before:
            pods[reading.pod] = counters.next_seen(
                before, reading, counts, since=evidence.since, born_after=evidence.born_after
            )
        elif len(pods) < MAX_PODS:
            pods[reading.pod] = counters.first_seen(reading, counts, evidence.born_after)
    return pods


def _totals(pods: Iterable[PodCounter]) -> tuple[int, int, int]:
    counted = list(pods)
    return (
        sum(pod.n for pod in counted),
        sum(pod.k for pod in counted),
        sum(pod.k_at_most for pod in counted),
    )


def _make_room(
    evidence: MetricEvidence, seen: Sequence[tuple[PodReading, Counts]]
) -> tuple[dict[str, PodCounter], datetime]:
    """Forget the pods that have been gone for longest, where new ones need the room; their totals stay counted.

    A forgotten pod that comes back must not count again: `born_after` moves to its last reading, so only a process
    that started later counts from zero.
    """
    present = {reading.pod for reading, _ in seen}
    excess = len({pod.pod for pod in evidence.pods} | present) - MAX_PODS
    gone = sorted((pod for pod in evidence.pods if pod.pod not in present), key=lambda one: one.at)
    forgotten = gone[: max(0, excess)]
    names = {pod.pod for pod in forgotten}
    kept = {pod.pod: pod for pod in evidence.pods if pod.pod not in names}
    return kept, max([evidence.born_after, *(pod.at for pod in forgotten)])


def _close(windows: Windows, p0: float, now: datetime) -> Windows:
    """The window ends here; one without requests says nothing and is no window."""
    n, k = windows.open_n, windows.open_k
    if n == 0:
        return windows.with_(open_since=now)
    return windows.with_(
        closed=windows.closed + 1,
        beyond=windows.beyond + (k > p0 * n),
        square_sum=windows.square_sum + k * k / n,
        log_wealth=betting.bet_on_window(windows.log_wealth, n, k, p0),
        open_since=now,
        open_n=0,
        open_k=0,
    )
