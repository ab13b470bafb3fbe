"""The compiled kernels one by one, beside plain sums in double precision."""

import math
from typing import Any

import numpy as np
import pytest
from backstay_runtime.kernels import heads
from backstay_runtime.kernels.exponential import exponential
from backstay_runtime.kernels.jit import compiled
from backstay_runtime.kernels.product import plain_product
from hypothesis import given, settings
from hypothesis import strategies as st

FOUND_OF_NO_ONE = np.float32(7)


@compiled
def all_exponentials(given: Any, out: Any) -> None:
    for k in range(given.shape[0]):
        out[k] = exponential(given[k])


def exponentials(numbers: Any) -> Any:
    numbers = np.asarray(numbers, dtype=np.float32)
    out = np.empty_like(numbers)
    all_exponentials(numbers, out)
    return out


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# --- the exponential ---------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-86, 87, width=32), min_size=1, max_size=70))
def test_an_exponential_is_off_by_two_units_in_the_last_place_at_most(given: list[float]) -> None:
    wanted = np.exp(np.asarray(given, dtype=np.float32).astype(np.float64))
    off = np.abs(exponentials(given) - wanted) / np.spacing(wanted.astype(np.float32))
    assert off.max() <= 2


def test_a_number_that_is_none_stays_none_wherever_it_stands() -> None:
    for length in (1, 16, 33):
        for place in range(length):
            given = numbers(length)
            given[place] = np.nan
            assert np.isnan(exponentials(given)).tolist() == [at == place for at in range(length)]


def test_beyond_its_ends_an_exponential_stays_finite_and_above_nothing() -> None:
    low, high = exponentials([-math.inf, -1e30]), exponentials([math.inf, 1e30])
    assert (low == low[0]).all()
    assert 0 < low[0] < 1e-37
    assert (high == high[0]).all()
    assert 1e38 < high[0] < math.inf


def test_the_exponential_of_nothing_is_one() -> None:
    assert exponentials([0.0, -0.0]).tolist() == [1.0, 1.0]


# --- products ----------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 13), out=st.integers(1, 40), width=st.integers(1, 50), data=st.data())
def test_a_product_is_that_of_its_columns_and_touches_no_others(rows: int, out: int, width: int, data: Any) -> None:
    first = data.draw(st.integers(0, out))
    last = data.draw(st.integers(first, out))
    given, weight, scales = numbers(rows, width, seed=1), numbers(out, width, seed=2), numbers(out, 1, seed=3)
    found = np.full((rows, out), FOUND_OF_NO_ONE)
    plain_product(given, weight, scales, first, last, found)
    wanted = given.astype(np.float64) @ (weight.astype(np.float64) * scales).T
    assert np.abs(found[:, first:last] - wanted[:, first:last]).max(initial=0) < 1e-4
    assert (np.delete(found, np.s_[first:last], axis=1) == FOUND_OF_NO_ONE).all()


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 8])
def test_a_number_that_is_none_spoils_no_other_row(rows: int) -> None:
    for broken in range(rows):
        given, found = numbers(rows, 24), np.empty((rows, 10), dtype=np.float32)
        given[broken, 3] = np.nan
        plain_product(given, numbers(10, 24, seed=1), np.ones((10, 1), dtype=np.float32), 0, 10, found)
        assert np.isnan(found).all(axis=1).tolist() == [row == broken for row in range(rows)]


# --- attention ---------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 45),
    size=st.sampled_from([1, 3, 4, 7, 16]),
    each=st.integers(1, 4),
    width=st.sampled_from([2, 8, 20]),
    large=st.booleans(),
)
def test_heads_that_share_a_key_attend_each_for_itself(
    length: int, size: int, each: int, width: int, large: bool
) -> None:
    pages = -(-length // size)
    cache, queries = numbers(pages + 2, size, 2, 2, width, seed=1), numbers(each, width, seed=2)
    if large:
        queries *= 30  # scores far apart: all but one share is next to nothing
    blocks = np.random.default_rng(length).permutation(pages + 2)[:pages].astype(np.int64)
    out = np.full(each * width, FOUND_OF_NO_ONE)
    heads.attend(queries, cache, 1, blocks, length, np.empty((each, length + 3), dtype=np.float32), out)
    own = cache[blocks].astype(np.float64).reshape(pages * size, 2, 2, width)[:length, :, 1]
    scores = queries.astype(np.float64) @ own[:, 0].T / math.sqrt(width)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted = shares / shares.sum(axis=1, keepdims=True) @ own[:, 1]
    assert np.abs(out.reshape(each, width) - wanted).max() < 1e-4


@pytest.mark.parametrize("part", [0, 1])
def test_a_key_or_value_that_is_none_is_seen(part: int) -> None:
    cache = numbers(2, 4, 2, 1, 8)
    cache[1, 2, part, 0, 5] = np.nan
    out, scores = np.empty(8, dtype=np.float32), np.empty((1, 8), dtype=np.float32)
    heads.attend(numbers(1, 8), cache, 0, np.array([0, 1]), 8, scores, out)
    assert np.isnan(out).any()
    heads.attend(numbers(1, 8), cache, 0, np.array([0, 1]), 6, scores, out)
    assert np.isfinite(out).all(), "what comes later is not looked at"
