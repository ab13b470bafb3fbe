"""What complete evidence decides."""

import pytest
from backstay_contract.evidence import MetricEvidence, MetricVerdict, VerdictKind
from backstay_contract.metric import MetricName
from backstay_judge import Limit, Settings, add, clean_requests_for_pass, dispersion, judge, limit_on_requests, wilson
from backstay_judge.deciding import decide
from backstay_judge.weighing import weigh
from hypothesis import given, settings
from hypothesis import strategies as st

from .build import INTERVAL, at, evidence_of, full_coverage, judged, reading

PASS, BREACH, INCONCLUSIVE = VerdictKind.PASS, VerdictKind.BREACH, VerdictKind.INCONCLUSIVE
Window = dict[str, tuple[int, int]]


def verdict(windows: list[Window], given_settings: Settings | None = None) -> MetricVerdict:
    return judged(windows, given_settings).metrics[0]


def even(n: int, k: int) -> Window:
    """A window whose requests are spread over two pods as evenly as can be."""
    return {"a": (n - n // 2, k - k // 2), "b": (n // 2, k // 2)}


def test_a_total_failure_of_one_pod_is_a_breach_after_two_requests_in_two_windows() -> None:
    found = verdict([{"a": (1, 1)}, {"a": (1, 1)}])
    assert (found.verdict, found.reason, found.n, found.k) == (BREACH, "BeyondLimit", 2, 2)


def test_a_total_failure_of_two_pods_is_a_breach_after_one_request_on_each() -> None:
    assert verdict([{"a": (1, 1), "b": (0, 0)}, {"a": (0, 0), "b": (1, 1)}]).verdict is BREACH


def test_one_window_is_never_a_breach_however_bad_it_is() -> None:
    found = verdict([even(1000, 1000)])
    assert (found.verdict, found.reason) == (INCONCLUSIVE, "AwaitingWindows")


def test_one_bad_window_after_good_ones_is_not_a_breach() -> None:
    found = verdict([even(30, 0)] * 5 + [even(30, 30)])
    assert found.verdict is INCONCLUSIVE


def test_one_window_is_never_a_pass_however_good_it_is() -> None:
    found = verdict([even(100_000, 0)])
    assert (found.verdict, found.reason) == (INCONCLUSIVE, "AwaitingWindows")


def test_382_fast_requests_in_two_windows_are_a_pass_and_one_fewer_is_not() -> None:
    assert verdict([even(191, 0)] * 2).verdict is PASS
    found = verdict([even(191, 0), even(190, 0)])
    assert (found.verdict, found.reason) == (INCONCLUSIVE, "InsufficientData")
    assert "382 requests" in found.message


def test_a_stricter_pass_needs_more_requests() -> None:
    strict = Settings(alpha_pass=0.001)
    need = clean_requests_for_pass(0.01, 0.001)
    assert verdict([even(need - 100, 0), even(99, 0)], strict).verdict is INCONCLUSIVE
    assert verdict([even(need - 100, 0), even(100, 0)], strict).verdict is PASS


def test_the_dispersion_is_that_of_the_windows_that_are_over() -> None:
    closed = [even(30, 3), even(30, 9), even(30, 0)]
    n, k, squares = 90, 12, (9 + 81) / 30
    evidence = evidence_of(closed)
    counters = {pod.pod: pod for pod in evidence.pods}
    open_look = [
        reading("a", counters["a"].judged + 500, counters["a"].beyond + 400, seconds=3.1),
        reading("b", counters["b"].judged, counters["b"].beyond, seconds=3.1),
    ]
    (after,) = add([evidence], open_look, at(3.1), INTERVAL)
    assert (after.n, after.windows.closed) == (590, 3)
    assert weigh(after, 1, Settings()).dispersion == pytest.approx(dispersion(3, n, k, squares))


def test_the_message_says_the_share_of_the_requests() -> None:
    assert "3 of 12 requests above 840 ms (25.00%, 95 % interval" in verdict([even(6, 1), even(6, 2)]).message


def test_a_hint_of_the_requests_a_pass_needs_is_given_only_while_they_are_fewer() -> None:
    assert "needs 382" in verdict([even(190, 2), even(191, 2)]).message
    assert "needs 382" not in verdict([even(190, 2), even(192, 2)]).message


@pytest.mark.case("R46")
def test_without_any_request_nothing_is_decided() -> None:
    found = verdict([even(0, 0)] * 50)
    assert (found.verdict, found.reason, found.estimate) == (INCONCLUSIVE, "InsufficientData", None)


def test_a_model_at_twice_what_is_allowed_is_found_in_the_end_and_never_passes() -> None:
    windows: list[Window] = []
    for count in range(1, 201):
        windows.append(even(100, 2))
        if count % 40 == 0:
            assert verdict(windows).verdict is not PASS
    assert verdict(windows).verdict is BREACH


def test_one_bad_pod_of_two_is_an_outlier_and_no_breach() -> None:
    found = verdict([{"a": (30, 30), "b": (30, 0)}] * 5)
    assert (found.verdict, found.pod) == (VerdictKind.POD_OUTLIER, "a")
    assert "without a (150 of 150)" in found.message


def test_one_bad_pod_of_ten_is_an_outlier_and_no_breach() -> None:
    good = {f"good-{index}": (30, 0) for index in range(9)}
    found = verdict([{**good, "bad": (30, 30)}] * 5)
    assert (found.verdict, found.pod) == (VerdictKind.POD_OUTLIER, "bad")


def test_two_bad_pods_of_ten_are_a_breach() -> None:
    good = {f"good-{index}": (30, 0) for index in range(8)}
    assert verdict([{**good, "bad": (30, 30), "worse": (30, 30)}] * 5).verdict is BREACH


def test_a_bad_model_of_which_one_pod_gets_most_requests_is_a_breach_and_no_outlier() -> None:
    assert verdict([{"a": (300, 150), "b": (3, 2)}] * 5).verdict is BREACH


def test_a_breach_waits_until_a_second_pod_was_asked() -> None:
    found = verdict([{"a": (30, 30), "b": (0, 0)}] * 5)
    assert (found.verdict, found.reason) == (INCONCLUSIVE, "AwaitingPods")


def test_a_pass_waits_until_a_second_pod_was_asked() -> None:
    found = verdict([{"a": (1000, 0), "b": (0, 0)}] * 5)
    assert (found.verdict, found.reason) == (INCONCLUSIVE, "AwaitingPods")


def test_with_one_pod_allowed_a_bad_pod_is_a_breach() -> None:
    assert verdict([{"a": (30, 30), "b": (30, 0)}] * 5, Settings(min_pods=1)).verdict is BREACH


def test_where_requests_of_a_window_share_their_load_only_the_bet_on_windows_can_breach() -> None:
    # Counted one by one, 60 slow of 660 would be a breach many times over; as windows they are 2 bad ones of 22.
    found = verdict([even(30, 0)] * 20 + [even(30, 30)] * 2)
    assert (found.verdict, found.reason) == (INCONCLUSIVE, "LoadCorrelated")
    assert found.dispersion is not None
    assert found.dispersion > 2
    assert verdict([even(30, 0)] * 20 + [even(30, 30)] * 6).verdict is BREACH


def test_where_requests_share_their_load_a_pass_needs_more_of_them() -> None:
    # 3 slow requests in 3,000 pass if they came one by one, and not yet if they came at once in a long quiet time.
    single = [even(100, 1), *[even(100, 0)] * 9]
    assert verdict(single * 3).verdict is PASS
    found = verdict([even(100, 8), *[even(100, 0)] * 29])
    assert (found.verdict, found.reason) == (INCONCLUSIVE, "LoadCorrelated")


def test_where_the_count_is_not_exact_breach_takes_the_fewest_and_pass_the_most() -> None:
    def decided(evidence: MetricEvidence) -> VerdictKind:
        return decide(evidence, weigh(evidence, 1, Settings()), 2, Settings()).verdict

    good = evidence_of([even(1000, 0)] * 3)
    assert decided(good) is PASS
    assert decided(good.with_(k_at_most=3000)) is INCONCLUSIVE


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
@pytest.mark.case("R62")
def test_every_verdict_shows_the_numbers_it_rests_on(steps: list[tuple[int, int]]) -> None:
    found = verdict([even(n, min(n, k)) for n, k in steps])
    n, k = sum(n for n, _ in steps), sum(min(n, k) for n, k in steps)
    assert (found.n, found.k) == (n, k)
    assert found.estimate == (k / n if n else None)
    assert (found.wilson_low, found.wilson_high) == wilson(n, k)
    assert found.e_value is not None
    assert found.breach_at == pytest.approx(3)
    assert found.pass_at == pytest.approx(1.30103)
    assert (found.limit, found.unit, found.allowed_fraction) == (840, "ms", 0.01)
    assert f"{k} of {n} requests above 840 ms" in found.message
    assert found.verdict is not BREACH or found.e_value >= 3


@given(st.integers(1, 6), st.integers(1, 30), st.integers(0, 30))
@settings(deadline=None, max_examples=60)
def test_breach_and_pass_never_come_together_and_a_breach_has_an_estimate_beyond_what_is_allowed(
    windows: int, n: int, k: int
) -> None:
    found = verdict([even(n, min(n, k))] * windows)
    if found.verdict is BREACH:
        assert found.estimate is not None
        assert found.estimate > 0.01
    if found.verdict is PASS:
        assert found.estimate is not None
        assert found.estimate < 0.01


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (limit_on_requests(MetricName.P99_LATENCY, 840.0), "above 840 ms"),
        (limit_on_requests(MetricName.TTFT_P99, 200.5), "above 200.5 ms"),
        (limit_on_requests(MetricName.INTER_TOKEN_P99, 40.0), "above 40 ms"),
        (limit_on_requests(MetricName.TOKENS_PER_SECOND, 20.0), "below 20 tokens/s"),
        (limit_on_requests(MetricName.ERROR_RATE, 0.02), "failed"),
    ],
)
def test_the_message_says_what_is_beyond_the_limit_in_the_metrics_own_words(limit: Limit, said: str) -> None:
    evidence = evidence_of([even(50, 5)] * 3, limit)
    found = judge({limit.metric: limit.value}, [evidence], full_coverage(evidence), at(3), Settings()).metrics[0]
    assert f"15 of 150 requests {said} (10.00%" in found.message
    assert f"at most {limit.allowed_fraction:g} may" in found.message
    assert (found.limit, found.allowed_fraction) == (limit.value, limit.allowed_fraction)


def test_an_error_rate_that_allows_every_request_to_fail_is_never_a_breach() -> None:
    limit = limit_on_requests(MetricName.ERROR_RATE, 1.0)
    evidence = evidence_of([even(1000, 1000)] * 5, limit)
    found = judge({limit.metric: 1.0}, [evidence], full_coverage(evidence), at(5), Settings())
    assert found.verdict is INCONCLUSIVE
