"""The error rate: rare errors against a recorded rate near nothing, and what a Pass then says."""

import pytest
from backstay_contract.evidence import VerdictKind
from backstay_contract.metric import ERROR_RATE_PASS_FLOOR, KINDS, MetricName, limit_of
from backstay_judge import Settings, clean_requests_for_pass, judge, limit_on_requests
from hypothesis import given
from hypothesis import strategies as st

from .build import at, evidence_of, full_coverage

ERROR_RATE = MetricName.ERROR_RATE
PASS, BREACH = VerdictKind.PASS, VerdictKind.BREACH
EVERY_METRIC = len(KINDS)


def verdict(
    windows: list[tuple[int, int]], baseline: float, *, metrics: int = 1, tolerance: float = 2.0
) -> VerdictKind:
    """Of one pod's windows of (requests, errors); alpha is shared by so many metrics."""
    limit = limit_on_requests(ERROR_RATE, limit_of(ERROR_RATE, baseline, tolerance))
    evidence = evidence_of([{"a": window} for window in windows], limit)
    settings = Settings(alpha=Settings().alpha / metrics)
    return judge({ERROR_RATE: limit.value}, [evidence], full_coverage(evidence), at(len(windows)), settings).verdict


@pytest.mark.case("R59")
@pytest.mark.parametrize("metrics", [1, EVERY_METRIC])
def test_five_errors_in_forty_requests_are_a_breach_of_a_baseline_of_one_in_a_thousand(metrics: int) -> None:
    assert verdict([(10, 1), (10, 2), (10, 1), (10, 1)], 0.001, metrics=metrics) is BREACH


def test_the_same_five_errors_are_none_where_five_in_a_hundred_were_recorded() -> None:
    assert verdict([(10, 1), (10, 2), (10, 1), (10, 1)], 0.05) is VerdictKind.INCONCLUSIVE


def test_a_single_error_never_breaches_even_where_none_was_recorded() -> None:
    assert verdict([(1, 1), (1, 0)], 0.0) is VerdictKind.INCONCLUSIVE
    assert verdict([(1, 0), (1, 1)], 0.0) is VerdictKind.INCONCLUSIVE


def test_a_pass_needs_382_requests_however_small_the_recorded_rate_is() -> None:
    need = clean_requests_for_pass(ERROR_RATE_PASS_FLOOR, Settings().alpha_pass)
    assert need == 382
    assert verdict([(need // 2, 0)] * 2, 0.0) is PASS
    assert verdict([(need // 2, 0), (need // 2 - 1, 0)], 0.0) is VerdictKind.INCONCLUSIVE


def test_a_larger_limit_passes_by_itself_and_not_by_one_percent() -> None:
    need = clean_requests_for_pass(0.1, Settings().alpha_pass)
    assert need < 382
    assert verdict([(need - need // 2, 0), (need // 2, 0)], 0.05) is PASS


@given(
    st.lists(st.tuples(st.integers(1, 200), st.integers(0, 200)), min_size=2, max_size=12),
    st.floats(0, 0.5),
    st.floats(1, 100),
)
def test_a_verdict_of_the_error_rate_is_never_both(
    windows: list[tuple[int, int]], baseline: float, tolerance: float
) -> None:
    counted = [(n, min(n, k)) for n, k in windows]
    found = verdict(counted, baseline, tolerance=tolerance)
    n, k = (sum(column) for column in zip(*counted, strict=True))
    if found is BREACH:
        assert k / n > limit_of(ERROR_RATE, baseline, tolerance)
    if found is PASS:
        assert k / n < max(ERROR_RATE_PASS_FLOOR, limit_of(ERROR_RATE, baseline, tolerance))
