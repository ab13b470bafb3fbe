"""Pauses between tries, and when they end."""

from collections.abc import Iterator

import pytest
from backstay_contract.termination import GaveUp
from backstay_runtime.pull.errors import PullError, TransientError
from backstay_runtime.pull.retry import Backoff, Retries
from hypothesis import given
from hypothesis import strategies as st

from .fakes import Lines

randoms = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 100), randoms)
def test_a_pause_grows_to_its_bound_and_never_beyond(failures: int, random: float) -> None:
    pause = Backoff(attempts=1000).pause(failures, random)
    assert pause is not None
    whole = min(8.0, 0.5 * 2.0 ** (failures - 1))
    assert whole / 2 <= pause <= whole


@given(st.integers(1, 20), randoms)
@pytest.mark.case("T29")
def test_tries_are_bounded(attempts: int, random: float) -> None:
    backoff = Backoff(attempts=attempts)
    assert backoff.pause(attempts, random) is None
    assert attempts == 1 or backoff.pause(attempts - 1, random) is not None


def retries(pauses: list[float], attempts: int = 3) -> Retries:
    return Retries(Backoff(attempts=attempts), pauses.append, lambda: 0.0, Lines())


def test_work_is_tried_until_it_succeeds() -> None:
    pauses: list[float] = []
    outcomes: Iterator[TransientError | str] = iter([TransientError("reset"), TransientError("503"), "done"])

    def work() -> str:
        outcome = next(outcomes)
        if isinstance(outcome, TransientError):
            raise outcome
        return outcome

    assert retries(pauses).call(work) == "done"
    assert pauses == [0.25, 0.5]


def test_giving_up_says_the_last_error_and_the_number_of_tries() -> None:
    def work() -> None:
        raise TransientError("http://storage:9000: timed out")

    with pytest.raises(PullError, match=r"timed out \(3 tries\)") as caught:
        retries([]).call(work)
    assert caught.value.termination.reason is GaveUp.STORAGE_UNREACHABLE


def test_other_errors_are_not_tried_again() -> None:
    pauses: list[float] = []

    def work() -> None:
        raise PullError(GaveUp.MODEL_NOT_FOUND, "gone")

    with pytest.raises(PullError, match="gone"):
        retries(pauses).call(work)
    assert pauses == []


def test_progress_gives_all_tries_back() -> None:
    pauses: list[float] = []
    tries = retries(pauses)
    for _ in range(10):
        tries.failed(TransientError("reset"))
        tries.progressed()
    assert pauses == [0.25] * 10
