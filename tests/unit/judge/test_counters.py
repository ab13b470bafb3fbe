"""One pod's counters: a restart counts from zero, an older value never, nothing twice."""

import pytest
from backstay_contract.evidence import EvidenceSource, PodCounter
from backstay_judge import PodReading
from backstay_judge.counters import base, first_seen, next_seen

from .build import BEFORE_FLIP, FLIP, P99, at, reading

PROMETHEUS, PODS = EvidenceSource.PROMETHEUS, EvidenceSource.PODS
RESTARTED = FLIP.timestamp() + 5


def start(judged: int, beyond: int = 0, **more: object) -> PodCounter:
    found = reading("a", judged, beyond, **more)  # type: ignore[arg-type]
    return base(found, found.counts[P99])


def after(known: PodCounter, *readings: PodReading) -> PodCounter:
    for one in readings:
        known = next_seen(known, one, one.counts[P99], since=FLIP, born_after=FLIP)
    return known


def totals(pod: PodCounter) -> tuple[int, int, int]:
    return pod.n, pod.k, pod.k_at_most


@pytest.mark.case("R56")
def test_what_was_counted_before_the_flip_does_not_count() -> None:
    assert totals(after(start(100, 50), reading("a", 103, 51, seconds=1))) == (3, 1, 1)


def test_a_restarted_process_counts_from_zero() -> None:
    pod = after(start(100, 50), reading("a", 110, 50, seconds=1), reading("a", 4, 1, seconds=9, started=RESTARTED))
    assert totals(pod) == (14, 1, 1)


def test_a_restarted_process_counts_from_zero_even_if_its_counter_is_already_higher() -> None:
    pod = after(start(100, 50), reading("a", 150, 2, seconds=9, started=RESTARTED))
    assert totals(pod) == (150, 2, 2)


def test_a_value_that_fell_in_the_same_process_is_an_older_one_and_changes_nothing() -> None:
    pod = after(start(100), reading("a", 120, 2, seconds=2))
    assert after(pod, reading("a", 110, 1, seconds=3, source=PROMETHEUS)) == pod


def test_going_to_the_other_source_and_back_counts_each_request_once() -> None:
    pod = after(
        start(100),
        reading("a", 120, 2, seconds=2, source=PODS),
        reading("a", 110, 1, seconds=3, source=PROMETHEUS),
        reading("a", 125, 2, seconds=4, source=PROMETHEUS),
        reading("a", 130, 3, seconds=5, source=PODS),
    )
    assert totals(pod) == (30, 3, 3)


def test_an_older_process_seen_through_a_source_that_lags_changes_nothing() -> None:
    pod = after(start(100), reading("a", 4, 1, seconds=9, started=RESTARTED))
    assert after(pod, reading("a", 130, 9, seconds=9, source=PROMETHEUS, started=BEFORE_FLIP)) == pod


@pytest.mark.parametrize("difference", [0.01, 1.0, -0.01, -1.0])
def test_start_times_that_differ_by_a_second_at_most_are_the_same_process(difference: float) -> None:
    later = FLIP.timestamp() + 100
    pod = after(start(100, started=later), reading("a", 105, 1, seconds=1, started=later + difference))
    assert totals(pod) == (5, 1, 1)


def test_start_times_that_differ_by_more_are_two_processes() -> None:
    later = FLIP.timestamp() + 100
    pod = after(start(100, started=later), reading("a", 105, 1, seconds=1, started=later + 1.1))
    assert totals(pod) == (105, 1, 1)
    assert after(pod, reading("a", 300, 200, seconds=2, started=later)) == pod


def test_readings_from_before_the_flip_only_move_the_base() -> None:
    pod = after(start(100, seconds=-8), reading("a", 110, 5, seconds=-3), reading("a", 115, 6, seconds=2))
    assert totals(pod) == (5, 1, 1)


def test_a_reading_of_the_very_moment_of_the_flip_is_still_a_base() -> None:
    pod = after(start(100, seconds=-8), reading("a", 110, 5, seconds=0), reading("a", 115, 6, seconds=2))
    assert totals(pod) == (5, 1, 1)


def test_a_reading_older_than_the_base_does_not_move_it_back() -> None:
    pod = after(start(110, seconds=-3), reading("a", 100, seconds=-8), reading("a", 115, seconds=2))
    assert totals(pod) == (5, 0, 0)


@pytest.mark.parametrize(("judged", "beyond", "at_most"), [(101, 12, 12), (101, 9, 10), (100, 11, 11), (105, 10, 16)])
def test_a_reading_that_contradicts_itself_waits_for_the_next(judged: int, beyond: int, at_most: int) -> None:
    pod = start(100, 10)
    torn = reading("a", judged, beyond, at_most=at_most, seconds=1)
    assert after(pod, torn) == pod
    assert totals(after(pod, torn, reading("a", 110, 12, seconds=2))) == (10, 2, 2)


def test_counts_from_buckets_are_not_subtracted_from_counts_of_the_series() -> None:
    pod = after(
        start(100, 10),
        reading("a", 110, 12, seconds=1),
        reading("a", 300, 90, seconds=2, basis="buckets 0.5 1"),
        reading("a", 304, 91, seconds=3, at_most=92, basis="buckets 0.5 1"),
    )
    assert totals(pod) == (14, 3, 4)


def test_another_basis_read_earlier_does_not_become_the_base() -> None:
    pod = after(start(100), reading("a", 110, seconds=5))
    assert after(pod, reading("a", 90, seconds=4, source=PROMETHEUS, basis="buckets 0.5 1")) == pod


@pytest.mark.parametrize(("started", "counted"), [(FLIP.timestamp() + 0.5, 7), (FLIP.timestamp(), 0), (BEFORE_FLIP, 0)])
def test_a_new_pod_counts_from_zero_only_if_it_started_after_the_flip(started: float, counted: int) -> None:
    found = reading("a", 7, 7, seconds=4, started=started)
    assert totals(first_seen(found, found.counts[P99], FLIP)) == (counted, counted, counted)


def test_a_process_that_restarted_before_the_flip_counts_from_its_first_reading() -> None:
    pod = after(start(100, seconds=-30), reading("a", 9, 9, seconds=1, started=BEFORE_FLIP + 55))
    assert totals(pod) == (0, 0, 0)
    assert totals(after(pod, reading("a", 11, 10, seconds=2, started=BEFORE_FLIP + 55))) == (2, 1, 1)


def test_the_source_that_is_shown_is_the_one_whose_reading_counted() -> None:
    pod = after(start(100, source=PODS), reading("a", 105, seconds=1, source=PROMETHEUS))
    assert pod.source is PROMETHEUS
    assert pod.at == at(1)
