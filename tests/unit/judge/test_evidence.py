"""Evidence and verdicts as documents: small, finite, and the same after a trip through the status."""

import json
import math
from typing import Any

import pytest
from backstay_contract.evidence import MAX_MESSAGE, MAX_PODS, MetricEvidence, MetricVerdict, VerdictKind
from backstay_contract.metric import MetricName
from pydantic import ValidationError

from .build import FLIP, evidence_of, judged


def fullest() -> MetricEvidence:
    """Evidence with as many pods, as long names and as large counters as there can be."""
    found = evidence_of([{"a": (10**9, 10**8)}] * 9)
    (pod,) = found.pods
    basis = "buckets 0.123456789 0.987654321"
    pods = tuple(
        pod.with_(pod=f"{index:03}".ljust(63, "x"), started=FLIP.timestamp() + 0.123456, basis=basis, at=found.at)
        for index in range(MAX_PODS)
    )
    return found.with_(pods=pods)


def test_the_fullest_evidence_of_a_metric_stays_below_the_size_it_promises() -> None:
    assert len(json.dumps(fullest().to_json(), separators=(",", ":"))) < 48 * 1024


def test_usual_evidence_has_about_a_kibibyte() -> None:
    found = evidence_of([{"chat-green-7d9f8b6c5d-abcde": (30, 3), "chat-green-7d9f8b6c5d-fghij": (30, 2)}] * 50)
    assert len(json.dumps(found.to_json(), separators=(",", ":"))) < 1400


def test_more_pods_than_the_bound_are_refused() -> None:
    found = fullest()
    with pytest.raises(ValidationError, match="pods"):
        found.with_(pods=(*found.pods, found.pods[0]))


def test_evidence_and_verdicts_are_the_same_after_a_trip_through_json() -> None:
    found = evidence_of([{"a": (30, 3), "b": (30, 1)}] * 5)
    assert MetricEvidence.model_validate(json.loads(json.dumps(found.to_json()))) == found
    (verdict,) = judged([{"a": (30, 3), "b": (30, 1)}] * 5).metrics
    assert MetricVerdict.model_validate(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_numbers_that_lost_their_fraction_on_the_way_are_read_back() -> None:
    document = evidence_of([{"a": (30, 0)}]).to_json()
    document["windows"]["squareSum"] = 0
    document["limit"] = 840
    assert MetricEvidence.model_validate(document) == evidence_of([{"a": (30, 0)}])


def every_number(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for one in value.values() for number in every_number(one)]
    if isinstance(value, list):
        return [number for one in value for number in every_number(one)]
    return [value] if isinstance(value, int | float) else []


@pytest.mark.parametrize("window", [(0, 0), (1, 1), (10**12, 10**12), (10**12, 0)])
def test_every_number_of_a_verdict_and_its_evidence_is_finite(window: tuple[int, int]) -> None:
    windows = [{"a": window}] * 60
    found = [evidence_of(windows).to_json(), judged(windows).to_json()]
    assert all(math.isfinite(number) for number in every_number(found))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["limit", "estimate", "e_value", "dispersion"])
def test_a_verdict_cannot_hold_a_number_that_json_has_not(field: str, value: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        MetricVerdict(
            metric=MetricName.P99_LATENCY,
            verdict=VerdictKind.PASS,
            reason="WithinLimit",
            message="",
            at=FLIP,
            **{field: value},  # type: ignore[arg-type]
        )


def test_the_words_are_camel_case_on_the_wire() -> None:
    (verdict,) = judged([{"a": (30, 3)}] * 3).to_json()["metrics"]
    assert {"metric", "verdict", "n", "k", "estimate", "wilsonLow", "wilsonHigh", "limit", "allowedFraction"} < set(
        verdict
    )
    assert {"eValue", "breachAt", "passEValue", "passAt", "source", "query", "at", "reason", "message"} < set(verdict)


def test_a_longest_message_fits() -> None:
    verdict = judged([{"a" * 253: (10**15, 10**14), "b" * 253: (10**15, 0)}] * 3)
    assert len(verdict.message) <= MAX_MESSAGE
    assert all(len(one.message) <= MAX_MESSAGE for one in verdict.metrics)
