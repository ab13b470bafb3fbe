"""Perplexity on the manifest's evaluation set, before the flip: what the candidate's pods computed, and what it says.

The attempt is judged by perplexity after the flip only if it was evaluated before it: its limit is added then.
"""

from collections.abc import Mapping

from backstay_contract.evidence import MAX_MESSAGE, MetricVerdict, VerdictKind
from backstay_contract.metric import KINDS, MetricName
from backstay_contract.status import MetricLimit
from backstay_judge import PodRound, Settings, judge_rounds, round_of

from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.observation import Evaluation

PERPLEXITY = MetricName.PERPLEXITY
WAITING = "AwaitingEvaluation"


def found(facts: Facts) -> MetricVerdict | None:
    """What the evaluation says; None while it is not known of every ready pod of the candidate."""
    if not facts.spec.rollout.checks.evaluation.enabled:
        return _skipped(facts, "EvaluationOff", "rollout.checks.evaluation is not enabled")
    ready = frozenset(pod.name for pod in facts.candidate_pods if pod.ready)
    told = {pod: facts.observation.evaluations[pod] for pod in sorted(ready) if pod in facts.observation.evaluations}
    if not ready or len(told) < len(ready):
        return None
    problems = {pod: one.problem for pod, one in told.items() if one.problem}
    if problems:
        return _impossible(facts, problems, len(ready))
    limit = facts.observation.limits.get(PERPLEXITY)
    if limit is None or all(one.items == 0 for one in told.values()):
        return _skipped(facts, "NoEvaluationSet", "the manifest has no evaluation set")
    soak, limits = facts.spec.rollout.soak, facts.observation.limits
    settings = Settings(alpha=soak.alpha, alpha_pass=soak.alpha_pass).shared_by(len(limits))
    rounds = {pod: _round(one) for pod, one in told.items()}
    return judge_rounds(rounds, ready, limit=limit, now=facts.now, settings=settings)


def waits(verdict: MetricVerdict | None) -> bool:
    """Whether a later look may say more: a round is not over, or one pod of several is alone with what it says."""
    if verdict is None or verdict.verdict in (VerdictKind.NO_DATA, VerdictKind.POD_OUTLIER):
        return True
    return verdict.verdict is VerdictKind.INCONCLUSIVE and verdict.reason == WAITING


def limits_with(limits: tuple[MetricLimit, ...], verdict: MetricVerdict) -> tuple[MetricLimit, ...]:
    """The attempt's limits, perplexity's among them where it was judged."""
    others = tuple(one for one in limits if one.metric is not PERPLEXITY)
    if verdict.verdict is VerdictKind.SKIPPED or verdict.limit is None:
        return others
    added = (*others, MetricLimit(metric=PERPLEXITY, limit=verdict.limit))
    return tuple(sorted(added, key=lambda one: one.metric))


def progress(facts: Facts) -> str:
    """How far the evaluation is, for people."""
    verdict = found(facts)
    if verdict is not None and verdict.verdict is VerdictKind.POD_OUTLIER:
        return verdict.message
    told = facts.observation.evaluations.values()
    if not told:
        return "the pods have not told yet whether they have an evaluation set"
    done = min(one.items if one.rounds else one.done for one in told)
    return f"the evaluation set is computed: {done} of {max(one.items for one in told)} texts"


def _round(one: Evaluation) -> PodRound:
    return round_of(one.found) if one.found else None


def _impossible(facts: Facts, problems: Mapping[str, str], ready: int) -> MetricVerdict:
    pod, why = next(iter(problems.items()))
    alone = len(problems) < min(Settings().min_pods, ready)
    return MetricVerdict(
        metric=PERPLEXITY,
        verdict=VerdictKind.POD_OUTLIER if alone else VerdictKind.BREACH,
        reason="EvaluationImpossible",
        message=f"pod {pod}: {why}"[:MAX_MESSAGE],
        pod=pod,
        at=facts.now,
        limit=facts.observation.limits.get(PERPLEXITY),
        unit=KINDS[PERPLEXITY].unit,
    )


def _skipped(facts: Facts, reason: str, why: str) -> MetricVerdict:
    return MetricVerdict(
        metric=PERPLEXITY,
        verdict=VerdictKind.SKIPPED,
        reason=reason,
        message=f"perplexity is not judged: {why}",
        at=facts.now,
        unit=KINDS[PERPLEXITY].unit,
    )
