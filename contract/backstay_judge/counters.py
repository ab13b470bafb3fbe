"""One pod's counters from one reading to the next: what it added, never negative and never twice.

The start time of the pod's process tells a restart from a value that is merely older, so it makes no difference
whether a reading came from Prometheus (which lags behind by up to a scrape) or from the pod itself.
"""

from datetime import datetime

from backstay_contract.evidence import PodCounter

from backstay_judge.readings import Counts, PodReading

SAME_PROCESS_SECONDS = 1.0
"""Start times closer than this name the same process: no container restarts and loads a model in less."""


def base(reading: PodReading, counts: Counts) -> PodCounter:
    """A pod whose requests count from this reading on."""
    return PodCounter(
        pod=reading.pod,
        started=counts.started,
        source=reading.source,
        basis=counts.basis,
        at=reading.at,
        judged=counts.judged,
        beyond=counts.beyond,
        beyond_at_most=counts.beyond_at_most,
    )


def first_seen(reading: PodReading, counts: Counts, born_after: datetime) -> PodCounter:
    """A pod, or a process of it, that the evidence does not know yet.

    A process that started after the flip (more exactly: after `born_after`) has served nothing before it, so all it
    counted is evidence. Any other may have served checks before the flip, or have been counted before and forgotten:
    it counts from this reading on, which loses a little and never counts twice.
    """
    pod = base(reading, counts)
    if counts.started <= born_after.timestamp():
        return pod
    return _counted(pod, counts.judged, counts.beyond, counts.beyond_at_most)


def next_seen(
    known: PodCounter, reading: PodReading, counts: Counts, *, since: datetime, born_after: datetime
) -> PodCounter:
    """The pod after another reading; unchanged if the reading says nothing new or contradicts itself.

    Readings from before the flip (`since`) only move the base.
    """
    later = counts.started - known.started
    if later < -SAME_PROCESS_SECONDS:
        return known
    if later > SAME_PROCESS_SECONDS:
        return _added(known, first_seen(reading, counts, born_after))
    fresh = base(reading, counts)
    if reading.at <= since or counts.basis != known.basis:
        # A new base: the flip has not come yet, or what was counted differs and cannot be subtracted. An earlier
        # reading as base would lie below what is already counted.
        return _added(known, fresh) if reading.at > known.at else known
    judged = counts.judged - known.judged
    beyond = counts.beyond - known.beyond
    at_most = counts.beyond_at_most - known.beyond_at_most
    # A process's counters never fall, so a lower value is an older one. And one scrape is not atomic: a request may
    # already be slow in it and not judged yet. The next reading heals both.
    if not 0 <= beyond <= at_most <= judged:
        return known
    return _added(known, _counted(fresh, judged, beyond, at_most))


def _counted(pod: PodCounter, judged: int, beyond: int, at_most: int) -> PodCounter:
    return pod.with_(n=judged, k=beyond, k_at_most=at_most)


def _added(known: PodCounter, pod: PodCounter) -> PodCounter:
    return pod.with_(n=known.n + pod.n, k=known.k + pod.k, k_at_most=known.k_at_most + pod.k_at_most)
