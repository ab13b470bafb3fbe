"""From samples to readings: exact counts where they exist, a said reason where they do not, never a number."""

import math
from dataclasses import replace
from typing import Any

import pytest
from backstay_contract.evidence import EvidenceSource
from backstay_contract.metric import MetricName
from backstay_contract.names import RuntimeMetric, format_limit
from backstay_judge import Limit, PodReading, RefusalReason, Sample, limit_on_requests, read_pod, read_pods

from .build import BEFORE_FLIP, DIGEST, ERRORS, FLIP, LATENCY, OTHER_DIGEST, P99, at, histogram, samples

TTFT = limit_on_requests(MetricName.TTFT_P99, 200.0)
GAP = limit_on_requests(MetricName.INTER_TOKEN_P99, 40.0)
SPEED = limit_on_requests(MetricName.TOKENS_PER_SECOND, 20.0)


def read(found: list[Sample], *limits: Limit, seconds: float = 0, digest: str = DIGEST) -> PodReading:
    return read_pod(
        found,
        pod="a",
        source=EvidenceSource.PODS,
        digest=digest,
        limits=limits or (LATENCY,),
        now=at(seconds),
        max_age_seconds=10,
    )


def refusal(found: list[Sample], *limits: Limit, seconds: float = 0) -> RefusalReason:
    """Why there is no reading; fails if there is one."""
    got = read(found, *limits, seconds=seconds)
    assert got.counts == {}
    (reason,) = got.refused.values()
    assert reason.message
    return reason.reason


def changed(found: list[Sample], name: str, **changes: Any) -> list[Sample]:
    return [replace(sample, **changes) if sample.name == name else sample for sample in found]


def without(found: list[Sample], name: str) -> list[Sample]:
    return [sample for sample in found if sample.name != name]


def test_the_series_of_the_limit_gives_an_exact_count() -> None:
    counts = read(samples("a", judged=40, beyond=3)).counts[P99]
    assert (counts.judged, counts.beyond, counts.beyond_at_most) == (40, 3, 3)
    assert (counts.limit, counts.started, counts.basis) == (840.0, BEFORE_FLIP, "series")


@pytest.mark.parametrize("limit", [LATENCY, TTFT, GAP, SPEED])
def test_every_metric_of_requests_is_read_from_its_own_series(limit: Limit) -> None:
    found = samples("a", judged=9, beyond=2, limit=limit) + [
        sample for sample in samples("a", judged=70, beyond=60, limit=LATENCY) if limit is not LATENCY
    ]
    once = {(sample.name, *sorted(sample.labels.items())): sample for sample in found}
    counts = read(list(once.values()), limit).counts[limit.metric]
    assert (counts.judged, counts.beyond) == (9, 2)


def test_another_limit_of_the_same_metric_is_not_mistaken_for_it() -> None:
    other = Limit(P99, 420.0, 0.01)
    slow = [s for s in samples("a", judged=40, beyond=30, limit=other) if s.name == RuntimeMetric.SLOW]
    assert read(samples("a", judged=40, beyond=3) + slow).counts[P99].beyond == 3


def test_a_limit_is_recognised_however_its_number_is_spelt() -> None:
    found = [
        replace(s, labels={**s.labels, "limit": "840"}) if s.name == RuntimeMetric.SLOW else s
        for s in samples("a", judged=40, beyond=3)
    ]
    assert read(found).counts[P99].beyond == 3


def test_errors_are_counted_among_those_that_ended_well_or_failed_and_no_others() -> None:
    counts = read(samples("a", ok=95, errors=5), ERRORS).counts[MetricName.ERROR_RATE]
    assert (counts.judged, counts.beyond) == (100, 5)


def test_a_missing_series_of_errors_is_not_read_as_no_errors() -> None:
    found = [s for s in samples("a", ok=95) if s.labels.get("outcome") != "error"]
    assert refusal(found, ERRORS) is RefusalReason.MISSING


def test_samples_of_another_digest_never_speak_for_this_one() -> None:
    assert refusal(samples("a", judged=1000, digest=OTHER_DIGEST)) is RefusalReason.MISSING


@pytest.mark.parametrize("label", [DIGEST, f"sha256:{DIGEST}"])
@pytest.mark.parametrize("asked", [DIGEST, f"sha256:{DIGEST}"])
def test_a_digest_is_recognised_with_and_without_its_prefix(label: str, asked: str) -> None:
    assert P99 in read(samples("a", judged=1, digest=label), digest=asked).counts


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 0.5, 2.0**53 + 2, "12", None, True])
@pytest.mark.parametrize("name", [RuntimeMetric.JUDGED, RuntimeMetric.SLOW])
def test_a_value_that_is_not_a_count_is_no_reading(name: str, value: Any) -> None:
    assert refusal(changed(samples("a", judged=40, beyond=3), name, value=value)) is RefusalReason.NOT_A_COUNT


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -5.0, "12", None])
def test_without_a_usable_start_time_there_is_no_reading(value: Any) -> None:
    found = changed(samples("a", judged=40), "process_start_time_seconds", value=value)
    assert refusal(found) is RefusalReason.NOT_A_COUNT
    assert refusal(without(found, "process_start_time_seconds")) is RefusalReason.MISSING


@pytest.mark.parametrize("name", [RuntimeMetric.JUDGED, RuntimeMetric.SLOW])
def test_a_missing_series_is_no_reading(name: str) -> None:
    assert refusal(without(samples("a", judged=40, beyond=3), name)) is RefusalReason.MISSING


def test_an_empty_answer_is_no_reading() -> None:
    assert refusal([]) is RefusalReason.MISSING


@pytest.mark.parametrize("name", [RuntimeMetric.JUDGED, RuntimeMetric.SLOW, "process_start_time_seconds"])
def test_two_series_for_one_counter_are_no_reading_even_if_they_agree(name: str) -> None:
    found = samples("a", judged=40, beyond=3)
    twice = [replace(s, labels={**s.labels, "job": "second"}) for s in found if s.name == name]
    assert refusal(found + twice) is RefusalReason.DUPLICATE


@pytest.mark.parametrize("seconds", [10.1, 3600.0, -10.1])
def test_a_sample_that_is_too_old_or_from_the_future_is_no_reading(seconds: float) -> None:
    assert refusal(samples("a", judged=40), seconds=seconds) is RefusalReason.STALE


@pytest.mark.parametrize("seconds", [0.0, 10.0, -10.0])
def test_a_sample_within_its_age_is_a_reading_with_the_samples_own_time(seconds: float) -> None:
    assert read(samples("a", judged=40), seconds=seconds).at == FLIP


@pytest.mark.parametrize("timestamp", [math.nan, math.inf, None, "now"])
def test_a_sample_without_a_time_is_no_reading(timestamp: Any) -> None:
    found = changed(samples("a", judged=40), RuntimeMetric.SLOW, timestamp=timestamp)
    assert refusal(found) is RefusalReason.STALE


def test_one_old_sample_among_fresh_ones_is_enough_to_refuse() -> None:
    found = changed(samples("a", judged=40, seconds=60), RuntimeMetric.SLOW, timestamp=FLIP.timestamp())
    assert refusal(found, seconds=60) is RefusalReason.STALE


def test_a_pod_whose_last_scrape_failed_has_no_reading() -> None:
    assert refusal(changed(samples("a", judged=40), "up", value=0.0)) is RefusalReason.DOWN


@pytest.mark.parametrize("count", [0, 1, 2**53])
def test_a_model_whose_every_request_is_slow_has_a_reading(count: int) -> None:
    counts = read(samples("a", judged=count, beyond=count)).counts[P99]
    assert (counts.judged, counts.beyond) == (count, count)


def test_more_slow_requests_than_requests_are_no_reading() -> None:
    assert refusal(samples("a", judged=3, beyond=4)) is RefusalReason.INCONSISTENT


def test_a_refusal_of_one_metric_leaves_the_others_alone() -> None:
    found = changed(samples("a", ok=9, judged=40), RuntimeMetric.JUDGED, value=math.nan)
    got = read(found, LATENCY, ERRORS)
    assert set(got.counts) == {MetricName.ERROR_RATE}
    assert set(got.refused) == {P99}


def test_samples_are_split_by_pod_and_those_without_one_are_left_out() -> None:
    nobody = [Sample(s.name, {k: v for k, v in s.labels.items() if k != "pod"}, 999, s.timestamp) for s in samples("x")]
    found = [*samples("b", judged=2), *samples("a", judged=1), *nobody]
    got = read_pods(
        found, source=EvidenceSource.PROMETHEUS, digest=DIGEST, limits=[LATENCY], now=FLIP, max_age_seconds=10
    )
    assert [(one.pod, one.counts[P99].judged, one.source) for one in got] == [
        ("a", 1, EvidenceSource.PROMETHEUS),
        ("b", 2, EvidenceSource.PROMETHEUS),
    ]


def test_without_an_edge_at_the_limit_breach_counts_above_the_next_edge_and_pass_above_the_one_below() -> None:
    found = histogram("a", [("0.5", 50), ("1.0", 80), ("2.0", 95), ("+Inf", 100)])
    counts = read(found).counts[P99]
    assert (counts.judged, counts.beyond, counts.beyond_at_most) == (100, 20, 50)
    assert counts.basis == "buckets 0.5 1"


def test_buckets_between_which_no_request_lies_are_a_histogram() -> None:
    counts = read(histogram("a", [("0.5", 50), ("1.0", 50), ("2.0", 50), ("+Inf", 50)])).counts[P99]
    assert (counts.judged, counts.beyond, counts.beyond_at_most) == (50, 0, 0)


def test_an_edge_at_the_limit_is_exact() -> None:
    counts = read(histogram("a", [("0.5", 50), ("0.84", 80), ("2.0", 95), ("+Inf", 100)])).counts[P99]
    assert (counts.judged, counts.beyond, counts.beyond_at_most) == (100, 20, 20)


def test_beyond_the_last_edge_nothing_is_certain_and_below_the_first_nothing_is_excluded() -> None:
    low = read(histogram("a", [("0.1", 50), ("+Inf", 100)])).counts[P99]
    assert (low.beyond, low.beyond_at_most) == (0, 50)
    high = read(histogram("a", [("5.0", 50), ("+Inf", 100)])).counts[P99]
    assert (high.beyond, high.beyond_at_most) == (50, 100)


def test_the_exact_series_is_preferred_to_the_buckets() -> None:
    found = samples("a", judged=40, beyond=3) + histogram("a", [("0.5", 1), ("+Inf", 40)])[:-1]
    assert read(found).counts[P99].basis == "series"


def test_ttft_has_buckets_too() -> None:
    found = histogram("a", [("0.2", 9), ("+Inf", 10)], name=RuntimeMetric.TTFT_SECONDS)
    assert read(found, TTFT).counts[MetricName.TTFT_P99].beyond == 1


@pytest.mark.parametrize("limit", [GAP, SPEED])
def test_gaps_between_tokens_and_speeds_are_not_counted_from_buckets_that_do_not_count_requests(limit: Limit) -> None:
    found = histogram("a", [("0.04", 900), ("+Inf", 1000)], name=RuntimeMetric.INTER_TOKEN_SECONDS)
    assert refusal(found, limit) is RefusalReason.MISSING


@pytest.mark.parametrize(
    ("cumulative", "reason"),
    [
        ([("0.5", 50), ("1.0", 49), ("+Inf", 100)], RefusalReason.INCONSISTENT),
        ([("0.5", 50), ("1.0", 80), ("+Inf", 79)], RefusalReason.INCONSISTENT),
        ([("0.5", 50), ("1.0", 80)], RefusalReason.MISSING),
        ([("0.5", 50), ("0.5", 50), ("+Inf", 100)], RefusalReason.DUPLICATE),
        ([("+Inf", 50), ("+Inf", 50)], RefusalReason.DUPLICATE),
        ([("0.5", math.nan), ("+Inf", 100)], RefusalReason.NOT_A_COUNT),
        ([("0.5", -1), ("+Inf", 100)], RefusalReason.NOT_A_COUNT),
        ([("half", 1), ("+Inf", 100)], RefusalReason.MISSING),
        ([("NaN", 1), ("+Inf", 100)], RefusalReason.MISSING),
    ],
)
def test_what_is_no_histogram_is_no_reading(cumulative: list[tuple[str, float]], reason: RefusalReason) -> None:
    assert refusal(histogram("a", cumulative)) is reason


def test_a_stale_histogram_is_no_reading() -> None:
    assert refusal(histogram("a", [("0.84", 9), ("+Inf", 10)]), seconds=60) is RefusalReason.STALE


def test_a_limit_is_written_as_the_runtime_writes_it() -> None:
    assert float(format_limit(LATENCY.value)) == LATENCY.value


def test_perplexity_has_no_limit_on_requests() -> None:
    with pytest.raises(ValueError, match="perplexity"):
        limit_on_requests(MetricName.PERPLEXITY, 15.0)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_limit_that_is_no_positive_number_is_refused_with_its_metric(value: float) -> None:
    with pytest.raises(ValueError, match="p99LatencyMs"):
        limit_on_requests(P99, value)


def test_an_error_rate_above_one_is_refused() -> None:
    with pytest.raises(ValueError, match="errorRate"):
        limit_on_requests(MetricName.ERROR_RATE, 1.5)
