"""The sequential test against its specification: its figures, its odds and how it moves."""

import math
import random
from collections.abc import Iterator
from functools import cache
from statistics import median

import pytest
from backstay_judge.sequential import (
    MAX_FRACTION,
    clean_requests_for_pass,
    log_e_beyond,
    log_e_within,
    log_mean_exp,
    worse_fractions,
)
from hypothesis import given
from hypothesis import strategies as st

ALPHA = 1e-3
P0 = 0.01
counts = st.integers(0, 5000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
fractions = st.floats(1e-4, 1.0)


@cache
def slow_for_breach(n: int, p0: float = P0) -> int:
    """The fewest slow requests of n that reach a Breach; n + 1 if none do."""
    low, high = 0, n + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if log_e_beyond(n, middle, p0) >= -math.log(ALPHA) else (middle + 1, high)
    return low


@cache
def slow_for_pass(n: int) -> int:
    """The most slow requests of n that still reach a Pass at 0.05; -1 if none do."""
    k = -1
    while k < n and log_e_within(n, k + 1, P0) >= -math.log(0.05):
        k += 1
    return k


def slow_requests(rng: random.Random, p: float, n: int) -> Iterator[int]:
    """The positions (1 to n) of the slow ones of n independent requests."""
    position = 0
    while True:
        position += 1 if p >= 1 else 1 + int(math.log(1 - rng.random()) / math.log1p(-p))
        if position > n:
            return
        yield position


def requests_to_breach(rng: random.Random, p: float, n: int, every: int = 1) -> int | None:
    """Requests until a look (after every so many) finds a Breach. E rises only at slow requests, so only the looks
    that follow one can be the first."""
    slow = look = 0
    for position in slow_requests(rng, p, n):
        if slow and position > look and slow >= slow_for_breach(look):
            return look
        slow += 1
        look = -(-position // every) * every
    return look if slow and look <= n and slow >= slow_for_breach(look) else None


def test_a_total_failure_is_a_breach_after_two_requests() -> None:
    assert slow_for_breach(1) == 2
    assert slow_for_breach(2) == 2


@pytest.mark.parametrize(("true_fraction", "published"), [(1.0, 2), (0.377, 7), (0.17, 23), (0.072, 98), (0.034, 469)])
def test_the_median_requests_to_a_breach_are_the_published_ones(true_fraction: float, published: int) -> None:
    # The standard error of a median of 1,501 runs is below 3.5 % here; four of them, and one request, are allowed.
    rng = random.Random(f"median {true_fraction}")
    found = [requests_to_breach(rng, true_fraction, 20_000) or 20_000 for _ in range(1501)]
    assert abs(median(found) - published) <= 1 + 0.14 * published


@pytest.mark.parametrize(("alpha", "requests"), [(0.05, 382), (0.01, 575), (0.001, 843)])
def test_a_pass_without_a_slow_request_needs_the_published_number_of_requests(alpha: float, requests: int) -> None:
    assert clean_requests_for_pass(0.01, alpha) == requests
    assert log_e_within(requests - 1, 0, 0.01) < -math.log(alpha) <= log_e_within(requests, 0, 0.01)


@pytest.mark.parametrize(("seconds", "requests_per_look"), [(1, 10), (5, 50), (30, 300)])
def test_a_model_exactly_at_its_limit_is_rarely_called_a_breach_however_often_one_looks(
    seconds: int, requests_per_look: int
) -> None:
    # 10,000 runs of 500 s at 10 requests per second. Ville: at most 10 are expected; were it exactly 10, more than 24
    # would be found with probability 4e-5.
    rng = random.Random(f"null {seconds}")
    breaches = sum(requests_to_breach(rng, P0, 5000, every=requests_per_look) is not None for _ in range(10_000))
    assert breaches <= 24


def test_a_model_exactly_at_its_limit_rarely_passes_at_any_look() -> None:
    # 2,000 runs of 3,000 requests, looking every 10. At most 100 are expected; were it exactly 100, more than 140 would
    # be found with probability 5e-5.
    rng = random.Random("pass")
    passed = 0
    for _ in range(2000):
        positions = list(slow_requests(rng, P0, 3000))
        k = 0
        for look in range(10, 3001, 10):
            while k < len(positions) and positions[k] <= look:
                k += 1
            if k <= slow_for_pass(look):
                passed += 1
                break
    assert passed <= 140


@pytest.mark.parametrize(("p0", "errors"), [(0.002, 5), (0.005, 5), (0.01, 6)])
@pytest.mark.case("R59")
def test_a_few_errors_in_forty_requests_are_a_breach_where_nearly_none_are_allowed(p0: float, errors: int) -> None:
    assert slow_for_breach(40, p0) <= errors


@given(counts, fractions)
def test_a_slow_request_never_lowers_the_evidence_for_breach_and_a_fast_one_never_raises_it(
    nk: tuple[int, int], p0: float
) -> None:
    n, k = nk
    now = log_e_beyond(n, k, p0)
    assert log_e_beyond(n + 1, k + 1, p0) >= now - 1e-9
    assert log_e_beyond(n + 1, k, p0) <= now + 1e-9


@given(counts, fractions)
def test_a_slow_request_never_raises_the_evidence_for_pass_and_a_fast_one_never_lowers_it(
    nk: tuple[int, int], p0: float
) -> None:
    n, k = nk
    now = log_e_within(n, k, p0)
    assert log_e_within(n + 1, k + 1, p0) <= now + 1e-9
    assert log_e_within(n + 1, k, p0) >= now - 1e-9


@given(counts, st.floats(1e-4, 0.9))
def test_at_the_limit_one_more_request_leaves_the_expected_evidence_as_it_is(nk: tuple[int, int], p0: float) -> None:
    # The martingale property that Ville's inequality rests on, in logs: ln(p0 E(slow) + (1 - p0) E(fast)) = ln E.
    n, k = nk
    for log_e in (log_e_beyond, log_e_within):
        slow = math.log(p0) + log_e(n + 1, k + 1, p0)
        fast = math.log1p(-p0) + log_e(n + 1, k, p0)
        after = math.log(2) + log_mean_exp([slow, fast])
        assert after == pytest.approx(log_e(n, k, p0), abs=1e-6, rel=1e-9)


@given(counts, fractions)
def test_the_evidence_is_finite_for_any_counts_and_any_allowed_fraction(nk: tuple[int, int], p0: float) -> None:
    n, k = nk
    assert math.isfinite(log_e_beyond(n, k, p0))
    assert math.isfinite(log_e_within(n, k, p0))


def test_a_billion_requests_do_not_overflow() -> None:
    assert math.isfinite(log_e_beyond(10**9, 10**9, 0.01))
    assert math.isfinite(log_e_within(10**9, 0, 0.01))


@given(fractions)
def test_without_requests_there_is_no_evidence(p0: float) -> None:
    assert log_e_beyond(0, 0, p0) == pytest.approx(0)
    assert log_e_within(0, 0, p0) == pytest.approx(0)


@given(fractions)
def test_every_alternative_is_worse_than_the_limit_and_none_is_certain(p0: float) -> None:
    assert all(p0 < p <= MAX_FRACTION for p in worse_fractions(p0))


def test_a_limit_that_allows_nearly_every_request_can_never_be_breached() -> None:
    assert worse_fractions(0.95) == ()
    assert log_e_beyond(1000, 1000, 1.0) == 0


def test_a_limit_of_two_thirds_is_still_judged() -> None:
    assert log_e_beyond(100, 100, 0.66) >= -math.log(ALPHA)


@pytest.mark.parametrize(("n", "k"), [(1, 2), (1, -1), (-1, 0)])
def test_impossible_counts_are_refused_by_name(n: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"k: {k} of n: {n}"):
        log_e_beyond(n, k, 0.01)


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=12))
def test_the_log_of_a_mean_of_exponentials_lies_between_its_largest_term_and_that_term_alone(logs: list[float]) -> None:
    top = max(logs)
    assert top - math.log(len(logs)) - 1e-9 <= log_mean_exp(logs) <= top + 1e-9
