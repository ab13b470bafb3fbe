"""Perplexity on the evaluation set: before the flip it decides about the candidate, after it it is judged on."""

import math
from dataclasses import replace
from typing import Any

import pytest
from backstay_contract.evidence import EvidenceSource, VerdictKind
from backstay_contract.metric import MetricName
from backstay_contract.names import RuntimeMetric
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, Phase
from backstay_judge import EvaluatedItem, Sample, round_of
from backstay_judge.rounds import ROUND_SERIES
from backstay_operator.rollout import evaluating
from backstay_operator.rollout.deriving import derive
from backstay_operator.rollout.observation import Evaluation, Look, Observation
from hypothesis import given, settings
from hypothesis import strategies as st

from .world import LIMIT_MS, World, digest, serving

PERPLEXITY = MetricName.PERPLEXITY
RECORDED = 20.0
BASELINES = {"p99LatencyMs": {"value": LIMIT_MS / 2}, "perplexity": {"value": RECORDED, "tolerance": 1.1}}


def evaluation(times: float = 1.0, *, texts: int = 10) -> Evaluation:
    """A whole round over texts of 50 tokens in which the perplexity is so many times the recorded one."""
    recorded = 50 * math.log(RECORDED)
    found = tuple(
        EvaluatedItem(recorded, recorded + 50 * (math.log(times) + 0.001 * (index % 3 - 1)), 50)
        for index in range(texts)
    )
    return Evaluation(items=texts, rounds=1, found=found)


class Judged(World):
    """A world whose pods export the rounds of their evaluation set."""

    def observe(self) -> Observation:
        seen = super().observe()
        return seen if seen.look is None else _with(seen, Look(self._all(seen.look), EvidenceSource.PODS))

    def _all(self, look: Look) -> tuple[Sample, ...]:
        added = [
            sample
            for colour in Colour
            if (live := self.deployments.get(colour))
            for pod in self._pods(colour)
            if pod.ready
            for sample in self._rounds(pod.name, live.wanted.digest)
        ]
        return (*look.samples, *added) if look.samples else ()

    def _rounds(self, pod: str, of: str) -> list[Sample]:
        told = self.model(of[-1]).evaluation
        labels, stamp = {"pod": pod, "digest": of}, self.now.timestamp()
        rounds = [Sample(RuntimeMetric.EVALUATION_ROUNDS, labels, told.rounds, stamp)]
        if not told.found:
            return [*rounds, *(Sample(name, labels, 0, stamp) for name in ROUND_SERIES)]
        last = round_of(told.found)
        excess = last.excess
        numbers = (excess.mean, excess.error, excess.degrees) if excess else (0.0, 0.0, 0)
        values = (last.items, last.broken, last.recorded, *numbers)
        return [*rounds, *(Sample(n, labels, v, stamp) for n, v in zip(ROUND_SERIES, values, strict=True))]


def _with(seen: Observation, look: Look) -> Observation:
    return replace(seen, look=look)


def world(told: Evaluation, **changes: Any) -> Judged:
    """A verified model serves, and another is asked for whose pods tell this."""
    before = serving(baselines=BASELINES)
    now = Judged(**{name: getattr(before, name) for name in before.__dataclass_fields__})
    now.model("b").evaluation = told
    now.ask("b", baselines=BASELINES, **changes)
    return now


def verdict_of(here: World) -> Any:
    """What the status says of perplexity."""
    return next(one for one in here.status.verdicts if one.metric is PERPLEXITY)


# --- before the flip ----------------------------------------------------------------------------------------------


def test_a_candidate_that_holds_its_recorded_losses_is_flipped_to_and_verified() -> None:
    here = world(evaluation(1.01)).run(40)
    assert (here.status.phase, here.status.reason) == (Phase.SERVING, Reason.VERIFIED)
    assert here.live_digest() == digest("b")
    assert here.attempt.evaluation is not None
    assert here.attempt.evaluation.verdict is VerdictKind.PASS
    assert {one.metric for one in here.attempt.limits} == {MetricName.P99_LATENCY, PERPLEXITY}
    assert (verdict_of(here).verdict, verdict_of(here).n) == (VerdictKind.PASS, 10)


def test_a_candidate_beyond_its_limit_is_rejected_before_the_flip_with_the_numbers() -> None:
    here = world(evaluation(2.0)).run(40)
    assert here.live_digest() == digest("a")
    assert Colour.GREEN not in here.selectors
    (rejected,) = here.status.rejected
    assert (rejected.digest, rejected.reason, rejected.metric) == (digest("b"), Reason.EVALUATION_FAILED, PERPLEXITY)
    assert rejected.observed == pytest.approx(2 * RECORDED, rel=0.01)
    assert rejected.limit == pytest.approx(1.1 * RECORDED)
    assert "2 times the recorded 20" in rejected.message
    assert any(event.reason is Reason.EVALUATION_FAILED and event.warning for event in here.events.values())


def test_a_loss_that_is_not_a_number_rejects_however_good_the_others_are() -> None:
    told = evaluation(0.5)
    broken = Evaluation(items=10, rounds=1, found=(EvaluatedItem(150.0, math.nan, 50), *told.found[1:]))
    here = world(broken).run(40)
    assert here.status.rejected[0].reason == Reason.EVALUATION_FAILED
    assert "1 of 10 evaluation items is not a number" in here.status.rejected[0].message


def test_a_set_that_cannot_be_computed_rejects_with_the_runtimes_words() -> None:
    here = world(Evaluation(problem="evaluation item 3 … recorded with another tokenizer")).run(40)
    assert here.status.rejected[0].reason == Reason.EVALUATION_FAILED
    assert "another tokenizer" in here.status.rejected[0].message


def test_the_flip_waits_for_the_first_round_and_says_how_far_it_is() -> None:
    here = world(Evaluation(items=10, done=4)).run(20)
    assert here.status.phase is Phase.CHECKING
    assert "4 of 10 texts" in here.status.message
    assert here.live_digest() == digest("a")
    here.model("b").evaluation = evaluation()
    assert here.run(30).live_digest() == digest("b")


def test_a_round_that_never_ends_is_rejected_at_the_deadline_with_how_far_it_was() -> None:
    here = world(Evaluation(items=10, done=4), rollout={"progressDeadlineSeconds": 30}).run(60)
    assert here.status.rejected[0].reason == Reason.PROGRESS_DEADLINE_EXCEEDED
    assert "4 of 10 texts" in here.status.rejected[0].message


def test_without_a_set_the_skip_is_told_and_nothing_waits() -> None:
    here = world(Evaluation()).run(40)
    assert here.status.reason == Reason.VERIFIED
    assert here.attempt.evaluation is not None
    assert (here.attempt.evaluation.verdict, here.attempt.evaluation.reason) == (
        VerdictKind.SKIPPED,
        "NoEvaluationSet",
    )
    assert verdict_of(here).verdict is VerdictKind.SKIPPED
    assert PERPLEXITY not in {one.metric for one in here.attempt.limits}


def test_an_evaluation_that_is_switched_off_keeps_nobody_out_and_is_told() -> None:
    here = world(evaluation(3.0), rollout={"checks": {"evaluation": {"enabled": False}}}).run(40)
    assert (here.status.reason, here.live_digest()) == (Reason.VERIFIED, digest("b"))
    assert here.attempt.evaluation is not None
    assert here.attempt.evaluation.reason == "EvaluationOff"
    assert verdict_of(here).verdict is VerdictKind.SKIPPED


def test_an_operator_that_starts_anew_in_the_soak_does_not_evaluate_again() -> None:
    here = world(evaluation()).until(Phase.SOAKING)
    here.model("b").evaluation = Evaluation(items=10, done=1)  # as a restarted container would tell
    assert here.attempt.evaluation is not None
    assert here.run(3).status.phase is Phase.SOAKING
    assert verdict_of(here).reason == "AwaitingEvaluation"


def test_a_pod_that_comes_after_the_evaluation_is_evaluated_too() -> None:
    here = world(evaluation(), rollout={"promotion": "Manual"}).until(Phase.AWAITING_PROMOTION)
    assert here.attempt.evaluation is not None
    here.deployments[Colour.GREEN].born.clear()
    here.run(0.5)
    assert here.attempt.evaluation is None
    assert here.until(Phase.AWAITING_PROMOTION).attempt.evaluation is not None


def test_one_pod_that_computes_something_else_holds_the_flip_and_rejects_no_model() -> None:
    here = world(evaluation(), replicas=2)
    here.until(Phase.CHECKING)
    while not here.attempt.smoke_passed_at:
        here.run(0.5)
    seen = here.observe()
    pods = sorted(seen.evaluations) or [pod.name for pod in here._pods(Colour.GREEN)]
    facts = derive(
        here.spec,
        here.status.with_(attempt=here.attempt.with_(evaluation=None)),
        replace(seen, evaluations={pods[0]: evaluation(3.0), pods[1]: evaluation()}),
        here.now,
    )
    found = evaluating.found(facts)
    assert found is not None
    assert (found.verdict, found.pod) == (VerdictKind.POD_OUTLIER, pods[0])
    assert evaluating.waits(found)
    assert pods[0] in evaluating.progress(facts)


# --- after the flip -----------------------------------------------------------------------------------------------


def test_a_spike_in_the_soak_goes_back_without_a_single_request() -> None:
    here = world(evaluation(), soak={"minSeconds": 30})
    here.requests_per_second = 0
    here.until(Phase.SOAKING).run(5)
    assert verdict_of(here).verdict is VerdictKind.PASS
    here.model("b").evaluation = evaluation(2.0)
    here.run(10)
    assert here.live_digest() == digest("a")
    (rejected,) = here.status.rejected
    assert (rejected.reason, rejected.metric) == (Reason.BREACH, PERPLEXITY)
    assert rejected.observed == pytest.approx(2 * RECORDED, rel=0.01)


def test_a_model_that_is_judged_by_perplexity_alone_is_verified_without_traffic() -> None:
    only = {"perplexity": BASELINES["perplexity"]}
    here = world(evaluation())
    here.requests_per_second = 0
    here.ask("b", baselines=only)
    here.run(40)
    assert (here.status.reason, here.live_digest()) == (Reason.VERIFIED, digest("b"))


@given(st.floats(0.2, 5.0))
@settings(deadline=None, max_examples=40)
def test_what_is_beyond_the_limit_never_gets_the_service_and_what_is_within_does(times: float) -> None:
    here = world(evaluation(times)).run(25)
    if times > 1.12:
        assert Colour.GREEN not in here.selectors
        assert here.status.rejected
    elif times < 1.08:
        assert here.live_digest() == digest("b")
        assert not here.status.rejected


def test_a_spike_leads_to_the_last_verified_revision_whose_own_texts_are_not_waited_for() -> None:
    here = world(Evaluation(), soak={"maxSeconds": 8})
    here.requests_per_second = 1
    here.run(50)
    assert (here.live_digest(), here.status.reason) == (digest("b"), Reason.INSUFFICIENT_DATA)
    here.requests_per_second = 200
    here.model("c").evaluation = evaluation()
    here.ask("c", baselines=BASELINES, soak={"minSeconds": 30})
    here.until(Phase.SOAKING).run(3)
    here.model("a").evaluation = Evaluation(items=10, done=1)
    here.model("c").evaluation = evaluation(2.0)
    here.run(60)
    assert here.live_digest() == digest("a")
    assert [one.metric for one in here.status.rejected] == [PERPLEXITY]


def test_an_evaluation_that_is_switched_off_in_the_soak_is_not_judged_any_more() -> None:
    off = {"checks": {"evaluation": {"enabled": False}}}
    here = world(evaluation(), soak={"minSeconds": 30}).until(Phase.SOAKING).run(3)
    assert verdict_of(here).verdict is VerdictKind.PASS
    here.ask("b", baselines=BASELINES, soak={"minSeconds": 30}, rollout=off)
    here.model("b").evaluation = evaluation(3.0)
    here.run(35)
    assert (here.live_digest(), here.status.reason) == (digest("b"), Reason.VERIFIED)
    assert verdict_of(here).verdict is VerdictKind.SKIPPED
