"""A promise that did not hold is never told as held."""

import dataclasses
from typing import Any

import pytest

from tests.e2e.story import record, timeline
from tests.e2e.story.claims import claims
from tests.unit.story.build import NEW, OLD, refused

V3 = "sha256:" + "c" * 64
BREACH = {
    "metric": "p99LatencyMs", "verdict": "Breach", "at": "1970-01-01T00:01:10Z", "n": 20, "k": 9, "limit": 400.0,
    "unit": "ms", "allowedFraction": 0.01, "eValue": 6.5, "breachAt": 3.3, "passEValue": -3.0, "passAt": 1.3,
}  # fmt: skip
CHILDREN = {"attempts": 3, "pods": ["chat-green-1"], "deployments": {"chat-green": [4, 1]}}


def rollout(version: str, digest: str, outcome: str, at: float, **more: Any) -> record.Rollout:
    whole = record.Rollout(version, digest, 10**8, at, at + 5, at + 6, at + 30, outcome, (), None)
    return dataclasses.replace(whole, **more)


def traffic(kind: str, **more: Any) -> record.Traffic:
    whole = record.Traffic(kind, 900, (), 3, 0, 0.6, {"1→2": 0.1, "2→1": 0.9})
    return dataclasses.replace(whole, **more)


def good() -> record.Record:
    return record.Record(
        rollouts=(
            rollout("0", OLD, "NoBaselines", 0),
            rollout("1", NEW, "Verified", 100),
            rollout("2", V3, "Breach", 200, verdicts=(BREACH,), back_at=220.0),
        ),
        traffic=(
            traffic("new", moved_s={"1→2": 0.1, "2→1": 0.0}),
            traffic("kept"),
        ),
        baseline=record.Baseline(200.0, 120.0, 240, 0.5),
        status={
            "active": {"version": "1", "colour": "green", "ready": 1},
            "ready": "1/1",
            "rejected": [{"digest": V3, "metric": "p99LatencyMs", "observed": 0.45, "limit": 400.0}],
        },
        selected="green",
        before_reapply=CHILDREN,
        after_reapply=dict(CHILDREN),
        steps=(("push", 3.0),),
    )


def broken(told: record.Record) -> list[str]:
    return [claim.sentence for claim in claims(told) if not claim.holds]


def test_a_story_that_went_well_breaks_no_promise() -> None:
    assert broken(good()) == []


OLD_ACTIVE = {"version": "1", "colour": "blue", "ready": 1}
CASES: dict[str, dict[str, Any]] = {
    "verified": {"rollouts": (good().rollouts[0], rollout("1", NEW, "InsufficientData", 100), good().rollouts[2])},
    "breached": {"rollouts": (*good().rollouts[:2], rollout("2", V3, "Verified", 200))},
    "selects": {"status": {**good().status, "active": OLD_ACTIVE}},
    "status.rejected": {"status": {**good().status, "rejected": []}},
    "limit": {"status": {**good().status, "rejected": [{"digest": V3, "metric": "p99LatencyMs", "observed": 1.0}]}},
    "a new connection": {"traffic": (traffic("new", lost=(refused(3),)), traffic("kept"))},
    "connections that are kept": {"traffic": (traffic("new"), traffic("kept", lost=(refused(3),)))},
    "no request was lost": {"traffic": (traffic("new", missing_lines=1), traffic("kept"))},
    "went to the winner": {"traffic": (traffic("new"), traffic("kept", moved_s={"2→1": 2.1}))},
    "all went to the winner": {"traffic": (traffic("new", moved_s={"2→1": None}), traffic("kept"))},
    "created nothing": {"after_reapply": {**CHILDREN, "attempts": 4}},
}


@pytest.mark.parametrize("promise", CASES)
def test_each_promise_can_be_broken_alone(promise: str) -> None:
    changed = dataclasses.replace(good(), **CASES[promise])
    sentences = broken(changed)
    assert sentences
    assert any(promise in sentence for sentence in sentences)


def test_no_traffic_is_no_proof_that_nothing_was_lost() -> None:
    assert broken(dataclasses.replace(good(), traffic=(traffic("new", sent=0), traffic("kept"))))


def test_the_report_tells_the_numbers_and_what_failed() -> None:
    changed = dataclasses.replace(good(), after_reapply={**CHILDREN, "pods": ["chat-green-1", "chat-blue-9"]})
    said = timeline.text(changed, claims(changed), "kubectl")
    assert "k=9 of n=20 beyond 400 ms, where 1.0% may be" in said
    assert "FAILED  the rejected resource" in said
    assert "chat-blue-9" in said
    assert "P99 200 ms, median 120 ms over 240 requests" in said
    assert "make demo-clean" in said
