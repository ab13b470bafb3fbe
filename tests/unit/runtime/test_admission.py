import pytest
from backstay_runtime.schedule.admission import Admission, QueueFullError


def test_as_many_may_come_as_run_and_wait() -> None:
    admission = Admission(max_sequences=4, queue_length=3)
    admission.check(6, 1)
    with pytest.raises(QueueFullError, match="2 sequences wait"):
        admission.check(6, 2)


def test_without_a_queue_only_those_that_run_at_once_may_come() -> None:
    admission = Admission(max_sequences=4, queue_length=0)
    admission.check(3, 1)
    with pytest.raises(QueueFullError):
        admission.check(4, 1)


def test_who_is_refused_is_told_to_wait_about_as_long_as_the_queue_takes() -> None:
    admission = Admission(max_sequences=2, queue_length=6)
    for _ in range(50):
        admission.served(5.0)
    with pytest.raises(QueueFullError) as refused:
        admission.check(8, 1)
    assert refused.value.retry_after == 20  # 1 + 6 / 2 rounds of 5 s


def test_nobody_is_told_to_wait_for_more_than_a_minute() -> None:
    admission = Admission(max_sequences=1, queue_length=100)
    admission.served(500.0)
    with pytest.raises(QueueFullError) as refused:
        admission.check(101, 1)
    assert refused.value.retry_after == 60
