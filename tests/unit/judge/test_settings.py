"""Limits and settings."""

import pytest
from backstay_contract.metric import KINDS, MetricName, limit_of
from backstay_judge import Limit, Settings, limit_on_requests, limits_on_requests
from hypothesis import given
from hypothesis import strategies as st

from .build import P99


def test_the_limits_to_count_against_are_those_that_are_given_and_are_proportions_of_requests() -> None:
    values = {
        P99: 840.0,
        MetricName.TTFT_P99: None,
        MetricName.ERROR_RATE: 0.02,
        MetricName.PERPLEXITY: 15.6,
        MetricName.TOKENS_PER_SECOND: 20.0,
    }
    assert limits_on_requests(values) == (
        Limit(P99, 840.0, 0.01),
        Limit(MetricName.ERROR_RATE, 0.02, 0.02),
        Limit(MetricName.TOKENS_PER_SECOND, 20.0, 0.01),
    )


def test_without_limits_there_is_nothing_to_count_against() -> None:
    assert limits_on_requests({}) == ()
    assert limits_on_requests({P99: None}) == ()


@given(st.sampled_from(list(MetricName)), st.floats(1e-6, 1e6), st.floats(1, 1000))
def test_every_limit_that_a_baseline_can_set_is_one_that_can_be_judged(
    metric: MetricName, value: float, tolerance: float
) -> None:
    if metric is MetricName.PERPLEXITY:
        return
    limit = limit_on_requests(metric, limit_of(metric, value, tolerance))
    assert 0 < limit.allowed_fraction <= 1
    assert limit.allowed_fraction == (KINDS[metric].allowed_fraction or limit.value)


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, float("nan")])
def test_an_allowed_fraction_that_is_none_is_refused_with_its_metric(fraction: float) -> None:
    with pytest.raises(ValueError, match=f"p99LatencyMs: an allowed fraction of {fraction}"):
        Limit(P99, 840.0, fraction)


@pytest.mark.parametrize("field", ["alpha", "alpha_pass", "alpha_rest"])
@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, float("nan")])
def test_odds_that_are_none_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field}: {value}"):
        Settings(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["min_windows", "min_pods"])
def test_at_least_one_window_and_one_pod_are_asked_for(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}: 0"):
        Settings(**{field: 0})
