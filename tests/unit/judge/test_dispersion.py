"""The dispersion of windows."""

import random
from statistics import mean

import pytest
from backstay_judge.dispersion import dispersion
from hypothesis import given
from hypothesis import strategies as st

windows = st.lists(
    st.integers(1, 100).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=30
)


def of(found: list[tuple[int, int]]) -> float:
    n, k = (sum(column) for column in zip(*found, strict=True))
    return dispersion(len(found), n, k, sum(slow * slow / all_ for all_, slow in found))


@given(windows)
def test_it_is_never_negative_and_is_what_the_definition_says(found: list[tuple[int, int]]) -> None:
    n, k = (sum(column) for column in zip(*found, strict=True))
    p = k / n
    if len(found) > 1 and 0 < p < 1:
        expected = sum(m * (slow / m - p) ** 2 for m, slow in found) / (p * (1 - p)) / (len(found) - 1)
        assert of(found) == pytest.approx(expected, abs=1e-6)
    assert of(found) >= 0


@pytest.mark.parametrize("found", [[(30, 3)], [(30, 0)] * 9, [(30, 30)] * 9])
def test_it_is_one_where_nothing_can_be_said(found: list[tuple[int, int]]) -> None:
    assert of(found) == 1


def test_windows_that_are_all_alike_have_none() -> None:
    assert of([(100, 10)] * 10) == pytest.approx(0)


def test_independent_requests_have_one_on_average() -> None:
    # The mean of 1,000 estimates, each with a standard deviation of about sqrt(2/19): off by 0.05 with odds below 1e-5.
    rng = random.Random("independent")
    found = [of([(50, sum(rng.random() < 0.2 for _ in range(50))) for _ in range(20)]) for _ in range(1000)]
    assert mean(found) == pytest.approx(1, abs=0.05)


def test_requests_in_clumps_have_the_size_of_a_clump() -> None:
    rng = random.Random("clumps")
    found = [of([(50, 5 * sum(rng.random() < 0.2 for _ in range(10))) for _ in range(20)]) for _ in range(1000)]
    assert mean(found) == pytest.approx(5, abs=0.25)
