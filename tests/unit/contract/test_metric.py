"""Metrics: units, which way is worse, and the limit that a baseline sets."""

import pytest
from backstay_contract.metric import ERROR_RATE_FLOOR, ERROR_RATE_PASS_FLOOR, KINDS, MetricName, limit_of, pass_fraction
from hypothesis import given
from hypothesis import strategies as st

values = st.floats(1e-3, 1e6)
tolerances = st.floats(1, 1000)
HIGHER_IS_WORSE = [metric for metric in MetricName if not KINDS[metric].lower_is_worse]


def test_every_metric_has_a_kind() -> None:
    assert set(KINDS) == set(MetricName)


def test_only_throughput_is_worse_when_lower() -> None:
    assert [metric for metric in MetricName if KINDS[metric].lower_is_worse] == [MetricName.TOKENS_PER_SECOND]


def test_a_percentile_allows_one_request_of_a_hundred_beyond_the_limit() -> None:
    assert {metric: KINDS[metric].allowed_fraction for metric in MetricName if "P99" in metric.name} == {
        MetricName.P99_LATENCY: 0.01,
        MetricName.TTFT_P99: 0.01,
        MetricName.INTER_TOKEN_P99: 0.01,
    }


@given(st.sampled_from(HIGHER_IS_WORSE), values)
def test_a_tolerance_of_one_is_the_baseline_itself(metric: MetricName, value: float) -> None:
    expected = min(1.0, max(ERROR_RATE_FLOOR, value)) if metric is MetricName.ERROR_RATE else value

    assert limit_of(metric, value, 1.0) == expected


@given(st.sampled_from(list(MetricName)), values, tolerances, tolerances)
def test_more_tolerance_never_makes_a_limit_stricter(
    metric: MetricName, value: float, one: float, other: float
) -> None:
    strict, lax = (limit_of(metric, value, tolerance) for tolerance in sorted((one, other)))

    assert strict >= lax if KINDS[metric].lower_is_worse else strict <= lax


@given(st.floats(0, 1), tolerances)
def test_the_limit_of_the_error_rate_is_a_fraction_and_never_forbids_a_single_error(
    value: float, tolerance: float
) -> None:
    assert ERROR_RATE_FLOOR <= limit_of(MetricName.ERROR_RATE, value, tolerance) <= 1.0


@pytest.mark.parametrize(
    ("metric", "value", "tolerance", "limit"),
    [
        (MetricName.P99_LATENCY, 420.0, 2.0, 840.0),
        (MetricName.TTFT_P99, 90.0, 1.5, 135.0),
        (MetricName.TOKENS_PER_SECOND, 60.0, 1.5, 40.0),
        (MetricName.ERROR_RATE, 0.0, 2.0, 0.002),
        (MetricName.ERROR_RATE, 0.02, 2.0, 0.04),
        (MetricName.ERROR_RATE, 0.8, 2.0, 1.0),
        (MetricName.PERPLEXITY, 14.0, 1.1, 14.0 * 1.1),
    ],
)
def test_limit_is_baseline_times_tolerance(metric: MetricName, value: float, tolerance: float, limit: float) -> None:
    assert limit_of(metric, value, tolerance) == limit


@given(st.sampled_from(list(MetricName)), st.floats(1e-3, 1))
def test_a_pass_never_excludes_less_than_the_limit_allows(metric: MetricName, allowed: float) -> None:
    assert pass_fraction(metric, allowed) >= allowed


def test_only_an_error_rate_passes_by_a_coarser_fraction_than_it_breaches() -> None:
    assert {metric: pass_fraction(metric, ERROR_RATE_FLOOR) for metric in MetricName} == {
        metric: ERROR_RATE_PASS_FLOOR if metric is MetricName.ERROR_RATE else ERROR_RATE_FLOOR for metric in MetricName
    }
