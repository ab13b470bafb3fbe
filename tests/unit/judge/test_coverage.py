"""What a look did not see, and how it is said."""

from dataclasses import replace

import pytest
from backstay_contract.evidence import EvidenceSource
from backstay_judge import Coverage, Limit, PodReading, Refusal, RefusalReason
from backstay_judge.coverage import gap

from .build import FLIP, LATENCY, P99, evidence_of, full_coverage, reading

EVIDENCE = evidence_of([{"a": (5, 0), "b": (5, 0)}])
COVERAGE = full_coverage(EVIDENCE)


def refused(pod: str, reason: RefusalReason) -> PodReading:
    return PodReading(pod, EvidenceSource.PODS, FLIP, {}, {P99: Refusal(reason, f"what is wrong with {pod}")})


def why(coverage: Coverage) -> tuple[str, str]:
    found = gap(coverage, LATENCY, EVIDENCE)
    assert found is not None
    return found.reason, found.message


def test_a_complete_look_has_no_gap() -> None:
    assert gap(COVERAGE, LATENCY, EVIDENCE) is None


@pytest.mark.parametrize("reason", list(RefusalReason))
def test_a_refused_reading_gives_its_own_reason(reason: RefusalReason) -> None:
    found = replace(COVERAGE, readings=[reading("a", 5), refused("b", reason)])
    assert why(found) == (reason, "1 of 2 ready pods have no reading; b: what is wrong with b")


def test_a_pod_without_a_sample_is_named() -> None:
    found = replace(COVERAGE, readings=[reading("b", 5)])
    assert why(found) == ("PodNotScraped", "1 of 2 ready pods have no reading; a: no sample of this pod")


def test_several_gaps_are_counted_and_the_first_is_told() -> None:
    found = replace(COVERAGE, readings=[refused("b", RefusalReason.STALE)])
    assert why(found) == ("PodNotScraped", "2 of 2 ready pods have no reading; a: no sample of this pod")


def test_a_reading_of_another_metric_is_none_of_this_one() -> None:
    other = Limit(type(P99).TTFT_P99, 200.0, 0.01)
    found = replace(COVERAGE, readings=[reading("a", 5), reading("b", 5, limit=other)])
    assert why(found)[0] == "PodNotScraped"


def test_a_source_that_failed_as_a_whole_is_told_before_the_pods_it_did_not_show() -> None:
    found = replace(COVERAGE, readings=[], unavailable="timeout after 2 s")
    assert why(found) == ("SourceUnavailable", "Pods: timeout after 2 s")


def test_a_source_that_is_not_known_is_called_metrics() -> None:
    found = Coverage(ready=frozenset("a"), unavailable="not configured")
    assert why(found) == ("SourceUnavailable", "metrics: not configured")


def test_no_ready_pod_is_told_before_pods_that_are_not_ready_and_were_not_read() -> None:
    assert why(replace(COVERAGE, ready=frozenset(), readings=[]))[0] == "NoReadyPods"


def test_without_evidence_there_is_no_data() -> None:
    found = gap(COVERAGE, LATENCY, None)
    assert found is not None
    assert found.reason == "NoEvidence"


def test_a_limit_that_changed_is_told_with_both_numbers() -> None:
    found = gap(COVERAGE, Limit(P99, 420.0, 0.01), EVIDENCE)
    assert found is not None
    assert found.reason == "LimitChanged"
    assert "against 840, the limit is now 420" in found.message


def test_a_ready_pod_that_was_read_and_not_counted_is_told() -> None:
    found = replace(COVERAGE, ready=frozenset("abc"), readings=[*COVERAGE.readings, reading("c", 9)])
    reason, message = why(found)
    assert reason == "PodNotCounted"
    assert "1 of 3 ready pods are not in the evidence, c for one" in message
