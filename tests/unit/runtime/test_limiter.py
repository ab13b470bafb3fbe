"""How many are let in, by how long answers take."""

import pytest
from backstay_runtime.schedule.admission import Admission, QueueFullError
from backstay_runtime.schedule.limiter import WINDOW, Limiter
from hypothesis import given
from hypothesis import strategies as st


def limiter(target: float | None = 1.0, *, least: int = 1, most: int = 100) -> Limiter:
    return Limiter(target, least=least, most=most)


def answer(one: Limiter, seconds: float, times: int = WINDOW) -> None:
    for _ in range(times):
        one.answered(seconds)


def test_without_a_target_nothing_changes() -> None:
    one = limiter(None)
    answer(one, 1000.0, 10 * WINDOW)
    assert one.limit == 100


def test_slow_answers_take_a_tenth_away_and_quick_ones_give_a_tenth_back() -> None:
    one = limiter()
    answer(one, 1.6)
    assert one.limit == 90
    answer(one, 0.7)
    assert one.limit == 99


def test_around_the_target_nothing_changes() -> None:
    one = limiter()
    for seconds in (0.9, 1.0, 1.4):
        answer(one, seconds)
    assert one.limit == 100


def test_one_slow_answer_among_many_is_no_overload() -> None:
    one = limiter()
    one.answered(5.0)
    answer(one, 1.0, WINDOW - 1)
    assert one.limit == 100


@given(st.lists(st.floats(0.01, 100.0), max_size=20 * WINDOW), st.integers(1, 8), st.integers(1, 64))
def test_the_limit_stays_between_its_bounds(answers: list[float], least: int, most: int) -> None:
    one = limiter(least=least, most=most)
    for seconds in answers:
        one.answered(seconds)
        assert least <= one.limit <= max(least, most)


@given(st.integers(2, 500))
def test_after_an_overload_all_are_let_in_again(most: int) -> None:
    one = limiter(most=most)
    answer(one, 50.0, 100 * WINDOW)
    assert one.limit == 1
    answer(one, 0.1, 100 * WINDOW)
    assert one.limit == most


def test_an_overloaded_server_refuses_before_its_queue_is_full() -> None:
    admission = Admission(max_sequences=4, queue_length=16, target_seconds=0.1)
    admission.check(19, 1)
    for _ in range(WINDOW * 8):
        admission.served(9.0)
    assert admission.limit == 8
    admission.check(7, 1)
    with pytest.raises(QueueFullError) as refused:
        admission.check(8, 1)
    assert refused.value.retry_after >= 1


def test_an_empty_server_takes_a_request_of_many_choices_even_after_an_overload() -> None:
    admission = Admission(max_sequences=4, queue_length=16, target_seconds=0.1)
    for _ in range(WINDOW * 100):
        admission.served(9.0)
    assert admission.limit == 1
    admission.check(0, 8)
