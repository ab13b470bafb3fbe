"""Whose turn comes when, and when a batch begins."""

import pytest
from backstay_runtime.sampling.params import SamplingParams
from backstay_runtime.schedule.batching import FILL_SECONDS, Batching
from backstay_runtime.schedule.priority import Priority
from backstay_runtime.schedule.sequence import Sequence
from backstay_runtime.schedule.waiting import Waiting, rank
from hypothesis import given
from hypothesis import strategies as st


def sequence(number: int, arrival: float, priority: Priority = Priority.NORMAL) -> Sequence:
    return Sequence(number, [0], 1, SamplingParams(max_tokens=1), arrival, priority=priority)


def order(*sequences: Sequence) -> list[int]:
    waiting = Waiting()
    for one in sequences:
        waiting.add(one)
    return [one.number for one in waiting]


def test_of_one_class_the_first_to_come_goes_first() -> None:
    assert order(sequence(2, 1.0), sequence(1, 0.5), sequence(0, 1.0)) == [1, 0, 2]


def test_a_higher_class_overtakes() -> None:
    assert order(sequence(0, 0.0, Priority.LOW), sequence(1, 1.0), sequence(2, 2.0, Priority.HIGH)) == [2, 1, 0]


def test_who_has_waited_long_enough_is_overtaken_no_more() -> None:
    assert order(sequence(0, 0.0, Priority.LOW), sequence(1, 30.5, Priority.HIGH)) == [0, 1]


@given(st.lists(st.tuples(st.floats(0, 1000), st.sampled_from(Priority)), max_size=20), st.data())
def test_the_queue_holds_what_was_added_and_not_removed_in_order_of_rank(
    coming: list[tuple[float, Priority]], data: st.DataObject
) -> None:
    sequences = [sequence(number, *one) for number, one in enumerate(coming)]
    gone = data.draw(st.sets(st.sampled_from(sequences))) if sequences else set()
    waiting = Waiting()
    for one in sequences:
        waiting.add(one)
    for one in gone:
        waiting.remove(one)
    assert list(waiting) == sorted(set(sequences) - gone, key=rank)
    assert len(waiting) == len(sequences) - len(gone)
    assert not any(one in waiting for one in gone)


def test_one_that_does_not_wait_cannot_be_removed() -> None:
    with pytest.raises(ValueError, match="sequence 3 does not wait"):
        Waiting().remove(sequence(3, 0.0))


def test_a_continuous_batch_may_be_joined_at_any_time() -> None:
    assert Batching.CONTINUOUS.joins_after(running=3, waiting=1, most=4, waited=0.0) == 0.0


@pytest.mark.parametrize("batching", [Batching.STATIC, Batching.DYNAMIC])
def test_a_closed_batch_is_finished_before_the_next_begins(batching: Batching) -> None:
    assert batching.joins_after(running=1, waiting=4, most=4, waited=9.0) is None


def test_a_static_batch_is_what_waits() -> None:
    assert Batching.STATIC.joins_after(running=0, waiting=1, most=4, waited=0.0) == 0.0


def test_a_dynamic_batch_waits_until_it_is_full_or_its_first_has_waited_long_enough() -> None:
    assert Batching.DYNAMIC.joins_after(running=0, waiting=4, most=4, waited=0.0) == 0.0
    assert Batching.DYNAMIC.joins_after(running=0, waiting=1, most=4, waited=0.02) == pytest.approx(0.03)
    assert Batching.DYNAMIC.joins_after(running=0, waiting=1, most=4, waited=FILL_SECONDS) == 0.0
