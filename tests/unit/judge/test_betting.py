"""The bet on window fractions: its odds under shared load, and that it is the product it claims to be."""

import math
import random

import pytest
from backstay_judge import betting
from backstay_judge.sequential import log_mean_exp
from hypothesis import given
from hypothesis import strategies as st

ALPHA = 1e-3
windows = st.lists(
    st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=30
)
fractions = st.floats(1e-4, 1.0)


def wealth(found: list[tuple[int, int]], p0: float) -> tuple[float, ...]:
    log_wealth = betting.begin()
    for n, k in found:
        log_wealth = betting.bet_on_window(log_wealth, n, k, p0)
    return log_wealth


@given(windows, fractions)
def test_the_wealth_is_a_product_of_bets_whose_lambda_was_fixed_before_each_window(
    found: list[tuple[int, int]], p0: float
) -> None:
    log_wealth, product = betting.begin(), 0.0
    for n, k in found:
        total = log_mean_exp(log_wealth)
        shares = [math.exp(one - total) / len(log_wealth) for one in log_wealth]
        predictable = sum(share * bet / p0 for share, bet in zip(shares, betting.BETS, strict=True))
        assert 0 <= predictable < 1 / p0
        product += math.log1p(predictable * (k / n - p0))
        log_wealth = betting.bet_on_window(log_wealth, n, k, p0)
    assert betting.log_e(log_wealth) == pytest.approx(product, abs=1e-6)


@given(windows, fractions)
def test_the_wealth_stays_finite_and_positive(found: list[tuple[int, int]], p0: float) -> None:
    assert all(math.isfinite(one) for one in wealth(found, p0))


@given(windows, fractions)
def test_a_slower_window_never_makes_the_bettor_poorer(found: list[tuple[int, int]], p0: float) -> None:
    n, k = found[-1]
    slower = [*found[:-1], (n, min(n, k + 1))]
    assert betting.log_e(wealth(slower, p0)) >= betting.log_e(wealth(found, p0)) - 1e-12


def test_windows_exactly_at_the_limit_win_nothing() -> None:
    assert betting.log_e(wealth([(100, 1)] * 50, 0.01)) == pytest.approx(0)


def test_load_that_a_window_shares_breaks_the_bet_no_more_often_than_promised() -> None:
    # 10,000 runs of 40 windows, each all slow with probability p0 and else all fast: the worst sharing there is. At
    # most 10 are expected to reach 1/alpha; were it exactly 10, more than 24 would be found with probability 4e-5.
    rng = random.Random("shared load")
    slow, fast = (wealth([window], 0.01) for window in ((30, 30), (30, 0)))
    reached = 0
    for _ in range(10_000):
        log_wealth = betting.begin()
        for _ in range(40):
            gain = slow if rng.random() < 0.01 else fast
            log_wealth = tuple(a + b for a, b in zip(log_wealth, gain, strict=True))
            if gain is slow and betting.log_e(log_wealth) >= -math.log(ALPHA):
                reached += 1
                break
    assert reached <= 24


def test_a_failure_after_a_long_good_spell_is_found_within_ten_windows() -> None:
    log_wealth = wealth([(30, 0)] * 100, 0.01)
    found = []
    for _ in range(10):
        log_wealth = betting.bet_on_window(log_wealth, 30, 30, 0.01)
        found.append(betting.log_e(log_wealth) >= -math.log(ALPHA))
    assert found[-1]
    assert not any(found[:2])


@pytest.mark.parametrize("kept", [(), (1.0,), (9.0,) * 9])
def test_wealth_kept_by_a_version_with_other_bets_begins_again(kept: tuple[float, ...]) -> None:
    assert betting.log_e(kept) == 0
    assert betting.bet_on_window(kept, 30, 3, 0.01) == betting.bet_on_window(betting.begin(), 30, 3, 0.01)


@pytest.mark.parametrize(("n", "k"), [(0, 0), (3, 4), (3, -1)])
def test_what_is_no_window_is_refused(n: int, k: int) -> None:
    with pytest.raises(ValueError, match="no window"):
        betting.bet_on_window(betting.begin(), n, k, 0.01)
