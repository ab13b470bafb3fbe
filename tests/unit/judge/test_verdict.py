"""The attempt's verdict: one of every listed metric, and nothing missing ever decides."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from backstay_contract.evidence import (
    MAX_PODS,
    AttemptVerdict,
    EvidenceSource,
    MetricEvidence,
    MetricVerdict,
    VerdictKind,
)
from backstay_contract.metric import MetricName
from backstay_contract.names import RuntimeMetric
from backstay_judge import Coverage, Sample, Settings, add, begin, judge, overall, read_pods
from hypothesis import given
from hypothesis import strategies as st

from .build import DIGEST, ERRORS, FLIP, INTERVAL, LATENCY, P99, at, evidence_of, full_coverage, reading, samples

PASS, BREACH, NO_DATA = VerdictKind.PASS, VerdictKind.BREACH, VerdictKind.NO_DATA
INCONCLUSIVE, SKIPPED, POD_OUTLIER = VerdictKind.INCONCLUSIVE, VerdictKind.SKIPPED, VerdictKind.POD_OUTLIER
LIMITS = {P99: LATENCY.value}
GOOD = evidence_of([{"a": (1000, 0), "b": (1000, 0)}] * 3)
BAD = evidence_of([{"a": (1000, 900), "b": (1000, 900)}] * 3)


def of(kind: VerdictKind, metric: MetricName = P99) -> MetricVerdict:
    return MetricVerdict(metric=metric, verdict=kind, reason="Because", message="of this", at=FLIP)


def look(evidence: MetricEvidence, coverage: Coverage) -> AttemptVerdict:
    return judge(LIMITS, [evidence], coverage, at(3), Settings())


def test_with_everything_read_the_good_pass_and_the_bad_breach() -> None:
    assert look(GOOD, full_coverage(GOOD)).verdict is PASS
    assert look(BAD, full_coverage(BAD)).verdict is BREACH


def seen(change: Callable[[list[Sample]], list[Sample]], evidence: MetricEvidence, seconds: float = 3) -> Coverage:
    """A look at pods a and b of which the second pod's samples are changed."""
    counters = {pod.pod: pod for pod in evidence.pods}
    found = samples("a", judged=counters["a"].judged, beyond=counters["a"].beyond, seconds=3)
    found += change(samples("b", judged=counters["b"].judged, beyond=counters["b"].beyond, seconds=3))
    readings = read_pods(
        found,
        source=EvidenceSource.PROMETHEUS,
        digest=DIGEST,
        limits=[LATENCY],
        now=at(seconds),
        max_age_seconds=10,
    )
    return Coverage(ready=frozenset(("a", "b")), readings=readings, source=EvidenceSource.PROMETHEUS)


def value(name: str, given_value: Any) -> Callable[[list[Sample]], list[Sample]]:
    return lambda found: [replace(s, value=given_value) if s.name == name else s for s in found]


NOT_VALUES: dict[str, Callable[[list[Sample]], list[Sample]]] = {
    "NaN": value(RuntimeMetric.JUDGED, math.nan),
    "NaN slow": value(RuntimeMetric.SLOW, math.nan),
    "+Inf": value(RuntimeMetric.JUDGED, math.inf),
    "-Inf": value(RuntimeMetric.SLOW, -math.inf),
    "negative": value(RuntimeMetric.SLOW, -3.0),
    "a fraction": value(RuntimeMetric.JUDGED, 10.5),
    "text": value(RuntimeMetric.JUDGED, "1000"),
    "null": value(RuntimeMetric.JUDGED, None),
    "empty": lambda _: [],
    "series missing": lambda found: [s for s in found if s.name != RuntimeMetric.SLOW],
    "duplicate": lambda found: [*found, replace(found[0], labels={**found[0].labels, "job": "again"})],
    "stale": lambda found: [replace(s, timestamp=s.timestamp - 11) for s in found],
    "from the future": lambda found: [replace(s, timestamp=s.timestamp + 11) for s in found],
    "down": value("up", 0.0),
    "another digest": lambda found: [replace(s, labels={**s.labels, "digest": "00" * 32}) for s in found],
    "no start time": lambda found: [s for s in found if s.name != "process_start_time_seconds"],
    "more slow than all": value(RuntimeMetric.SLOW, 1e9),
}


def test_the_unchanged_look_of_the_table_below_decides() -> None:
    assert look(GOOD, seen(lambda found: found, GOOD)).verdict is PASS
    assert look(BAD, seen(lambda found: found, BAD)).verdict is BREACH


@pytest.mark.parametrize("evidence", [GOOD, BAD], ids=["would pass", "would breach"])
@pytest.mark.parametrize("what", NOT_VALUES)
@pytest.mark.case("T41", "R47")
def test_a_value_that_is_none_never_passes_and_never_breaches(what: str, evidence: MetricEvidence) -> None:
    found = look(evidence, seen(NOT_VALUES[what], evidence))
    assert found.verdict is NO_DATA
    assert found.metrics[0].verdict is NO_DATA
    assert "1 of 2 ready pods" in found.message
    assert "b" in found.message


@pytest.mark.parametrize("evidence", [GOOD, BAD], ids=["would pass", "would breach"])
@pytest.mark.parametrize("what", NOT_VALUES)
def test_a_value_that_is_none_adds_nothing_to_the_evidence(what: str, evidence: MetricEvidence) -> None:
    (after,) = add([evidence], seen(NOT_VALUES[what], evidence).readings, at(4), INTERVAL)
    assert (after.n, after.k, after.k_at_most) == (evidence.n, evidence.k, evidence.k_at_most)
    assert after.pods[1] == evidence.pods[1]


@pytest.mark.parametrize("evidence", [GOOD, BAD], ids=["would pass", "would breach"])
@pytest.mark.parametrize("problem", ["401 Unauthorized", "500", "timeout after 5 s", "connection refused", "not JSON"])
@pytest.mark.case("T41")
def test_a_source_that_does_not_answer_never_passes_and_never_breaches(problem: str, evidence: MetricEvidence) -> None:
    coverage = Coverage(ready=frozenset(("a", "b")), source=EvidenceSource.PROMETHEUS, unavailable=problem)
    found = look(evidence, coverage)
    assert (found.verdict, found.reason) == (NO_DATA, "SourceUnavailable")
    assert f"Prometheus: {problem}" in found.message


@pytest.mark.parametrize("evidence", [GOOD, BAD], ids=["would pass", "would breach"])
def test_a_ready_pod_that_nobody_scraped_is_no_data(evidence: MetricEvidence) -> None:
    coverage = replace(full_coverage(evidence), ready=frozenset(("a", "b", "c")))
    found = look(evidence, coverage)
    assert (found.verdict, found.reason) == (NO_DATA, "PodNotScraped")
    assert "1 of 3 ready pods have no reading; c" in found.message


@pytest.mark.parametrize("evidence", [GOOD, BAD], ids=["would pass", "would breach"])
def test_without_a_ready_pod_there_is_no_data(evidence: MetricEvidence) -> None:
    found = look(evidence, replace(full_coverage(evidence), ready=frozenset()))
    assert (found.verdict, found.reason) == (NO_DATA, "NoReadyPods")


def test_a_pod_that_is_read_but_not_ready_is_not_waited_for() -> None:
    assert look(GOOD, replace(full_coverage(GOOD), ready=frozenset(("a",)))).verdict is PASS


def test_more_pods_than_evidence_holds_are_no_data_and_not_a_pass_on_some_of_them() -> None:
    pods = [f"pod-{index:04}" for index in range(MAX_PODS + 1)]
    evidence = begin([LATENCY], [reading(pod, 0) for pod in pods], FLIP)
    for second in (1, 2):
        readings = [reading(pod, 100 * second, seconds=second) for pod in pods]
        evidence = add(evidence, readings, at(second), INTERVAL)
    coverage = Coverage(ready=frozenset(pods), readings=readings)
    assert look(evidence[0], coverage).reason == "PodNotCounted"


@pytest.mark.parametrize("evidence", [GOOD, BAD], ids=["would pass", "would breach"])
def test_evidence_against_another_limit_is_no_data(evidence: MetricEvidence) -> None:
    found = judge({P99: 420.0}, [evidence], full_coverage(evidence), at(3), Settings())
    assert (found.verdict, found.reason) == (NO_DATA, "LimitChanged")


@pytest.mark.case("R50")
def test_a_listed_metric_without_evidence_keeps_the_attempt_from_passing() -> None:
    limits = {P99: LATENCY.value, MetricName.ERROR_RATE: ERRORS.value}
    found = judge(limits, [GOOD], full_coverage(GOOD), at(3), Settings())
    assert found.verdict is NO_DATA
    assert [(one.metric, one.verdict) for one in found.metrics] == [(P99, PASS), (MetricName.ERROR_RATE, NO_DATA)]


@pytest.mark.case("R57")
def test_a_metric_without_a_baseline_is_a_visible_skip() -> None:
    limits = {P99: LATENCY.value, MetricName.TTFT_P99: None}
    found = judge(limits, [GOOD], full_coverage(GOOD), at(3), Settings())
    assert found.verdict is PASS
    skipped = found.metrics[1]
    assert (skipped.verdict, skipped.reason, skipped.limit) == (SKIPPED, "NoBaseline", None)
    assert "spec.baselines" in skipped.message


@pytest.mark.case("R46")
def test_only_skips_are_never_a_pass() -> None:
    found = judge({P99: None}, [], Coverage(ready=frozenset("a")), at(3), Settings())
    assert (found.verdict, found.reason) == (INCONCLUSIVE, "NothingJudged")


@pytest.mark.case("R46")
def test_an_attempt_without_metrics_is_never_a_pass() -> None:
    assert judge({}, [], Coverage(ready=frozenset("a")), at(3), Settings()).verdict is INCONCLUSIVE


def test_perplexity_that_no_pod_tells_of_keeps_the_attempt_from_passing() -> None:
    limits = {P99: LATENCY.value, MetricName.PERPLEXITY: 15.6}
    found = judge(limits, [GOOD], full_coverage(GOOD), at(3), Settings())
    assert (found.verdict, found.metrics[1].verdict, found.metrics[1].reason) == (NO_DATA, NO_DATA, "PodNotScraped")


def test_alpha_is_split_over_the_metrics_that_are_judged() -> None:
    limits = {P99: LATENCY.value, MetricName.ERROR_RATE: ERRORS.value, MetricName.TTFT_P99: None}
    found = judge(limits, [GOOD], full_coverage(GOOD), at(3), Settings(alpha=1e-3))
    assert found.metrics[0].breach_at == pytest.approx(math.log10(2 / 1e-3))


def test_evidence_that_is_a_breach_alone_may_not_be_one_beside_other_metrics() -> None:
    evidence = evidence_of([{"a": (1, 1)}, {"a": (1, 1)}])
    others = {MetricName.ERROR_RATE: 0.01, MetricName.TTFT_P99: 200.0}
    alone = judge(LIMITS, [evidence], full_coverage(evidence), at(2), Settings())
    beside = judge({**LIMITS, **others}, [evidence], full_coverage(evidence), at(2), Settings())
    assert alone.metrics[0].verdict is BREACH
    assert beside.metrics[0].verdict is INCONCLUSIVE


kinds = st.lists(st.sampled_from(list(VerdictKind)), max_size=6)


@given(kinds)
def test_the_attempt_passes_only_if_every_judged_metric_does_and_one_is_judged(found: list[VerdictKind]) -> None:
    verdict = overall([of(kind) for kind in found], FLIP).verdict
    counted = [kind for kind in found if kind is not SKIPPED]
    assert (verdict is PASS) == (bool(counted) and set(counted) == {PASS})


@given(kinds)
def test_one_breach_is_the_attempts_and_nothing_else_is(found: list[VerdictKind]) -> None:
    assert (overall([of(kind) for kind in found], FLIP).verdict is BREACH) == (BREACH in found)


@given(kinds)
def test_the_order_of_the_metrics_does_not_matter(found: list[VerdictKind]) -> None:
    verdicts = [of(kind) for kind in found]
    assert overall(verdicts, FLIP).verdict is overall(verdicts[::-1], FLIP).verdict


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([PASS, NO_DATA, INCONCLUSIVE], NO_DATA),
        ([PASS, POD_OUTLIER], INCONCLUSIVE),
        ([PASS, SKIPPED], PASS),
        ([PASS, INCONCLUSIVE, SKIPPED], INCONCLUSIVE),
        ([NO_DATA, BREACH], BREACH),
        ([SKIPPED], INCONCLUSIVE),
    ],
)
def test_what_the_metrics_say_together(found: list[VerdictKind], expected: VerdictKind) -> None:
    assert overall([of(kind) for kind in found], FLIP).verdict is expected


def test_the_attempts_message_names_the_metric_that_decided() -> None:
    found = overall([of(PASS, MetricName.ERROR_RATE), of(BREACH, P99)], FLIP)
    assert found.message.startswith("p99LatencyMs: ")
    assert found.reason == "Because"


def test_the_query_and_the_source_are_shown() -> None:
    (found,) = look(GOOD, full_coverage(GOOD)).metrics
    assert (found.source, found.query) == (EvidenceSource.PODS, "GET /metrics")
