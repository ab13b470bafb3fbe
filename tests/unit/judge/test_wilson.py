"""Wilson's interval."""

import pytest
from backstay_judge.wilson import wilson
from hypothesis import given
from hypothesis import strategies as st

counts = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@given(counts)
def test_the_interval_holds_the_estimate_and_stays_between_zero_and_one(nk: tuple[int, int]) -> None:
    n, k = nk
    low, high = wilson(n, k)
    assert 0 <= low <= k / n <= high <= 1
    assert low < high


@given(counts)
def test_the_interval_of_the_fast_ones_mirrors_that_of_the_slow_ones(nk: tuple[int, int]) -> None:
    n, k = nk
    low, high = wilson(n, k)
    mirrored = wilson(n, n - k)
    assert (1 - high, 1 - low) == pytest.approx(mirrored, abs=1e-12)


def test_it_agrees_with_published_values() -> None:
    # Newcombe, Statistics in Medicine 17 (1998) 857, table I, method 3.
    assert wilson(263, 81) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(148, 15) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(20, 0) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(29, 1) == pytest.approx((0.0061, 0.1718), abs=5e-5)


def test_without_requests_it_says_nothing() -> None:
    assert wilson(0, 0) == (0, 1)
