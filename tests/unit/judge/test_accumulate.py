"""Evidence grows: each request once, however often and from wherever one looks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta, timezone
from typing import Any

import pytest
from backstay_contract.evidence import MAX_PODS, EvidenceSource, MetricEvidence
from backstay_judge import PodReading, add, begin
from hypothesis import given, settings
from hypothesis import strategies as st

from .build import BEFORE_FLIP, ERRORS, FLIP, INTERVAL, LATENCY, P99, at, evidence_of, reading

PROMETHEUS, PODS = EvidenceSource.PROMETHEUS, EvidenceSource.PODS


@dataclass
class FakePod:
    """A pod as it really is, with every value that its counters ever had."""

    name: str
    history: list[tuple[float, int, int]] = field(default_factory=lambda: [(BEFORE_FLIP, 0, 0)])
    """(start of the process, judged, beyond) after each event."""

    def serve(self, n: int, k: int) -> None:
        started, judged, beyond = self.history[-1]
        self.history.append((started, judged + n, beyond + min(k, n)))

    def restart(self, seconds: float) -> None:
        self.history.append((at(seconds).timestamp(), 0, 0))

    def read(self, seconds: float, source: EvidenceSource, lag: int = 0) -> PodReading:
        started, judged, beyond = self.history[max(0, len(self.history) - 1 - lag)]
        return reading(self.name, judged, beyond, seconds=seconds, started=started, source=source)


@dataclass
class Oracle:
    """What must have been counted of a pod: of each process the highest value seen before a later one was."""

    base: tuple[float, int, int]
    best: dict[float, tuple[int, int]] = field(default_factory=dict)

    def see(self, started: float, judged: int, beyond: int) -> None:
        if all(started >= other for other in self.best):
            self.best[started] = max(self.best.get(started, (0, 0)), (judged, beyond))

    def counted(self) -> tuple[int, int]:
        n = sum(judged for judged, _ in self.best.values())
        k = sum(beyond for _, beyond in self.best.values())
        if self.base[0] in self.best:
            n, k = n - self.base[1], k - self.base[2]
        return n, k


events = st.lists(
    st.one_of(
        st.tuples(st.just("serve"), st.integers(0, 1), st.integers(0, 20), st.integers(0, 20)),
        st.tuples(st.just("restart"), st.integers(0, 1), st.just(0), st.just(0)),
        st.tuples(st.just("look"), st.sampled_from([PROMETHEUS, PODS]), st.integers(0, 3), st.just(0)),
    ),
    max_size=40,
)


@given(events, st.integers(0, 30))
@settings(max_examples=150, deadline=None)
def test_every_request_that_was_seen_counts_once_through_restarts_lags_and_changes_of_source(
    found: list[tuple[str, Any, int, int]], checks: int
) -> None:
    pods = [FakePod("a"), FakePod("b")]
    for pod in pods:
        pod.serve(checks, checks)
    flip = len(pods[0].history)
    evidence = begin([LATENCY], [pod.read(0, PODS) for pod in pods], FLIP)
    oracles = [Oracle(pod.history[-1], {pod.history[-1][0]: pod.history[-1][1:]}) for pod in pods]
    for second, (what, who, n, k) in enumerate(found, start=2):
        if what == "look":
            # No source shows a value from before the flip after it: that would be older than its sample may be.
            lags = [0 if who is PODS else min(n, len(pod.history) - flip) for pod in pods]
            looks = [pod.read(second, who, lag) for pod, lag in zip(pods, lags, strict=True)]
            for oracle, pod, lag in zip(oracles, pods, lags, strict=True):
                oracle.see(*pod.history[len(pod.history) - 1 - lag])
            evidence = add(evidence, looks, at(second), INTERVAL)
        elif what == "serve":
            pods[who].serve(n, k)
        else:
            pods[who].restart(second)
    expected = [oracle.counted() for oracle in oracles]
    assert (evidence[0].n, evidence[0].k) == tuple(map(sum, zip(*expected, strict=True)))
    assert [(pod.n, pod.k) for pod in evidence[0].pods] == expected


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=25),
    st.sets(st.integers(1, 24)),
)
@settings(deadline=None)
def test_looking_more_or_less_often_gives_the_same_counts(steps: list[tuple[int, int]], skipped: set[int]) -> None:
    def counted(looks: Sequence[int]) -> MetricEvidence:
        pod = FakePod("a")
        evidence = begin([LATENCY], [pod.read(0, PODS)], FLIP)
        for second, (n, k) in enumerate(steps, start=1):
            pod.serve(n, k)
            if second in looks:
                evidence = add(evidence, [pod.read(second, PODS)], at(second), INTERVAL)
        return evidence[0]

    last = len(steps)
    often = counted(range(1, last + 1))
    seldom = counted([second for second in range(1, last + 1) if second == last or second not in skipped])
    assert (often.n, often.k, often.k_at_most) == (seldom.n, seldom.k, seldom.k_at_most)
    assert often.pods == seldom.pods


quarters = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=4)


@given(st.lists(quarters, min_size=1, max_size=12))
@settings(deadline=None)
def test_looks_inside_a_window_do_not_change_the_windows(seconds: list[list[tuple[int, int]]]) -> None:
    def counted(looks_per_second: int) -> MetricEvidence:
        pod = FakePod("a")
        evidence = begin([LATENCY], [pod.read(0, PODS)], FLIP)
        for second, parts in enumerate(seconds):
            for part, (n, k) in enumerate(parts, start=1):
                pod.serve(n, k)
                if part % (4 // looks_per_second) == 0:
                    time = second + part / 4
                    evidence = add(evidence, [pod.read(time, PODS)], at(time), INTERVAL)
        return evidence[0]

    assert counted(1) == counted(2) == counted(4)


def test_evidence_that_went_through_the_status_grows_as_if_it_had_not() -> None:
    pod = FakePod("a")
    kept = stored = begin([LATENCY], [pod.read(0, PODS)], FLIP)
    for second in range(1, 20):
        pod.serve(7, second % 3)
        look = [pod.read(second, PODS)]
        kept = add(kept, look, at(second), INTERVAL)
        stored = tuple(MetricEvidence.model_validate(one.to_json()) for one in stored)
        stored = add(stored, look, at(second), INTERVAL)
    assert kept == stored


def test_a_pod_that_appears_after_the_flip_counts_from_zero() -> None:
    evidence = begin([LATENCY], [reading("a", 10)], FLIP)
    born = FLIP.timestamp() + 30
    looks = [reading("a", 12, seconds=60), reading("b", 5, 4, seconds=60, started=born)]
    (found,) = add(evidence, looks, at(60), INTERVAL)
    assert (found.n, found.k) == (7, 4)


def test_a_pod_that_was_missed_at_the_flip_counts_from_its_first_reading() -> None:
    evidence = begin([LATENCY], [reading("a", 10)], FLIP)
    evidence = add(evidence, [reading("a", 12, seconds=1), reading("b", 500, 400, seconds=1)], at(1), INTERVAL)
    assert (evidence[0].n, evidence[0].k) == (2, 0)
    (found,) = add(evidence, [reading("a", 12, seconds=2), reading("b", 503, 401, seconds=2)], at(2), INTERVAL)
    assert (found.n, found.k) == (5, 1)


def test_a_pod_that_is_gone_keeps_what_it_counted() -> None:
    evidence = begin([LATENCY], [reading("a", 0), reading("b", 0)], FLIP)
    evidence = add(evidence, [reading("a", 9, 2, seconds=1), reading("b", 1, seconds=1)], at(1), INTERVAL)
    (found,) = add(evidence, [reading("b", 4, seconds=2)], at(2), INTERVAL)
    assert (found.n, found.k) == (13, 2)
    assert [pod.pod for pod in found.pods] == ["a", "b"]


def test_a_metric_without_a_reading_in_a_look_catches_up_at_the_next() -> None:
    evidence = begin([LATENCY, ERRORS], [reading("a", 0)], FLIP)
    latency, errors = add(evidence, [reading("a", 5, 1, seconds=1)], at(1), INTERVAL)
    assert (latency.n, errors.n, errors.pods) == (5, 0, ())


def test_counts_against_another_limit_are_not_mixed_in() -> None:
    other = type(LATENCY)(P99, 420.0, 0.01)
    evidence = begin([LATENCY], [reading("a", 0)], FLIP)
    (found,) = add(evidence, [reading("a", 50, 49, seconds=1, limit=other)], at(1), INTERVAL)
    assert (found.n, found.k) == (0, 0)


def test_a_window_without_requests_is_no_window() -> None:
    found = evidence_of([{"a": (5, 0)}, {"a": (0, 0)}, {"a": (0, 0)}, {"a": (5, 5)}])
    assert (found.windows.closed, found.windows.beyond) == (2, 1)


def test_the_window_that_is_still_open_counts_for_n_and_k_but_is_no_window_yet() -> None:
    evidence = begin([LATENCY], [reading("a", 0)], FLIP)
    (found,) = add(evidence, [reading("a", 5, 1, seconds=0.5)], at(0.5), INTERVAL)
    assert (found.n, found.k, found.windows.closed, found.windows.open_n) == (5, 1, 0, 5)


def test_a_poll_that_comes_a_little_early_still_closes_its_window() -> None:
    evidence = begin([LATENCY], [reading("a", 0)], FLIP)
    for poll in range(1, 11):
        evidence = add(evidence, [reading("a", poll, seconds=poll * 0.97)], at(poll * 0.97), INTERVAL)
    assert evidence[0].windows.closed == 10


def test_a_window_is_beyond_if_more_than_the_allowed_fraction_of_it_is() -> None:
    found = evidence_of([{"a": (100, 1)}, {"a": (100, 2)}, {"a": (99, 1)}])
    assert (found.windows.closed, found.windows.beyond) == (3, 2)


def test_a_clock_that_goes_back_closes_no_window_and_loses_no_request() -> None:
    evidence = begin([LATENCY], [reading("a", 0)], FLIP)
    evidence = add(evidence, [reading("a", 4, seconds=5)], at(5), INTERVAL)
    (found,) = add(evidence, [reading("a", 9, seconds=5.5)], at(2), INTERVAL)
    assert (found.n, found.windows.closed, found.at) == (9, 1, at(5))


def name(index: int) -> str:
    return f"pod-{index:04}"


def test_the_pods_that_are_gone_for_longest_make_room_and_their_requests_stay_counted() -> None:
    evidence = begin([LATENCY], [], FLIP)
    for index in range(MAX_PODS + 40):
        born = FLIP.timestamp() + index + 0.5
        look = [reading(name(index), 3, 1, seconds=index + 1, started=born)]
        evidence = add(evidence, look, at(index + 1), INTERVAL)
    (found,) = evidence
    assert len(found.pods) == MAX_PODS
    assert (found.n, found.k) == (3 * (MAX_PODS + 40), MAX_PODS + 40)
    assert found.pods[0].pod == name(40)


def test_a_forgotten_pod_that_comes_back_is_not_counted_again() -> None:
    evidence = begin([LATENCY], [], FLIP)
    born = FLIP.timestamp() + 0.5
    for index in range(MAX_PODS + 1):
        look = [reading(name(index), 3, seconds=index + 1, started=born + index)]
        evidence = add(evidence, look, at(index + 1), INTERVAL)
    n = evidence[0].n
    evidence = add(evidence, [reading(name(0), 5, seconds=900, started=born)], at(900), INTERVAL)
    assert evidence[0].n == n
    evidence = add(evidence, [reading(name(0), 9, seconds=901, started=born)], at(901), INTERVAL)
    assert evidence[0].n == n + 4


def test_more_pods_at_once_than_evidence_holds_are_left_out_and_not_forgotten_in_turns() -> None:
    pods = [name(index) for index in range(MAX_PODS + 5)]
    evidence = begin([LATENCY], [reading(pod, 0) for pod in pods], FLIP)
    for second in (1, 2):
        look = [reading(pod, second, seconds=second) for pod in pods]
        evidence = add(evidence, look, at(second), INTERVAL)
    assert [pod.pod for pod in evidence[0].pods] == pods[:MAX_PODS]
    assert evidence[0].n == 2 * MAX_PODS


@pytest.mark.parametrize("hours", [0, 5])
def test_the_times_are_kept_in_any_time_zone(hours: int) -> None:
    now = at(1).astimezone(timezone(timedelta(hours=hours)))
    evidence = begin([LATENCY], [reading("a", 0)], FLIP)
    (found,) = add(evidence, [reading("a", 3, seconds=1)], now, INTERVAL)
    assert (found.n, found.windows.closed) == (3, 1)
