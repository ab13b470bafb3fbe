"""Rounds over the evaluation set on several pods: read from their metrics, and judged together.

A pod tells only its last whole round, so there is nothing to add up, and a restart of the operator loses nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from backstay_contract.evidence import MAX_MESSAGE, MetricVerdict, VerdictKind
from backstay_contract.metric import KINDS, MetricName
from backstay_contract.names import RuntimeMetric

from backstay_judge.perplexity import Difference, Round, judge_perplexity
from backstay_judge.refusal import ReadingError, Refusal, RefusalReason
from backstay_judge.samples import UP, Sample, check_age, check_up, is_finite, only, same_digest, whole_number
from backstay_judge.settings import Settings

ROUND_SERIES = (
    RuntimeMetric.EVALUATION_ITEMS,
    RuntimeMetric.EVALUATION_BROKEN,
    RuntimeMetric.EVALUATION_RECORDED,
    RuntimeMetric.EVALUATION_EXCESS,
    RuntimeMetric.EVALUATION_ERROR,
    RuntimeMetric.EVALUATION_DEGREES,
)
"""What a pod tells of its last whole round."""

PodRound = Round | Refusal | None
"""What a look saw of one pod: its last round, why that cannot be read, or None where no round is over yet."""


def read_rounds(
    samples: Iterable[Sample], *, digest: str, now: datetime, max_age_seconds: float
) -> dict[str, PodRound]:
    """The last round of each pod named in the samples' `pod` label. Refused are the samples that readings refuse."""
    by_pod: dict[str, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        pod = sample.labels.get("pod")
        if pod and (sample.name == UP or same_digest(sample.labels.get("digest", ""), digest)):
            by_pod[pod][sample.name].append(sample)
    return {pod: _read(series, now, max_age_seconds) for pod, series in sorted(by_pod.items())}


def _read(series: Mapping[str, list[Sample]], now: datetime, max_age_seconds: float) -> PodRound:
    try:
        check_up(series.get(UP, []))
        rounds = _one(series, RuntimeMetric.EVALUATION_ROUNDS, now, max_age_seconds)
        if whole_number(rounds) == 0:
            return None
        items, broken, recorded, mean, error, degrees = (
            _one(series, name, now, max_age_seconds) for name in ROUND_SERIES
        )
        excess = None
        if whole_number(broken) == 0 and whole_number(degrees) >= 1:
            excess = Difference(_number(mean), _number(error, least=0), whole_number(degrees))
        return Round(whole_number(items), whole_number(broken), _number(recorded, least=1), excess)
    except ReadingError as error:
        return error.refusal


def _one(series: Mapping[str, list[Sample]], name: str, now: datetime, max_age_seconds: float) -> Sample:
    sample = only(series.get(name, []), name)
    check_age([sample], now, max_age_seconds)
    return sample


def _number(sample: Sample, least: float | None = None) -> float:
    if not is_finite(sample.value) or (least is not None and sample.value < least):
        raise ReadingError(RefusalReason.NOT_A_NUMBER, f"{sample.name}: {sample.value!r} is not a number of its kind")
    return float(sample.value)


def judge_rounds(
    rounds: Mapping[str, PodRound], ready: frozenset[str], *, limit: float, now: datetime, settings: Settings
) -> MetricVerdict:
    """The verdict on the ready pods' rounds.

    All compute the same texts with the same weights: where one of several is beyond the limit alone, it is that pod's
    hardware (PodOutlier). A Breach needs all of the pods, or two; a Pass needs all.
    """
    if not ready:
        return without_rounds(VerdictKind.NO_DATA, "NoReadyPods", "no pod is ready", limit, now)
    verdicts = {
        pod: judge_perplexity(found, limit=limit, now=now, settings=settings)
        for pod in sorted(ready)
        if isinstance(found := rounds.get(pod), Round)
    }
    beyond = {pod: one for pod, one in verdicts.items() if one.verdict is VerdictKind.BREACH}
    if len(beyond) >= min(settings.min_pods, len(ready)):
        return _told(_worst(beyond), len(verdicts))
    return _missing(rounds, ready, limit, now) or _together(verdicts, beyond)


def _missing(
    rounds: Mapping[str, PodRound], ready: frozenset[str], limit: float, now: datetime
) -> MetricVerdict | None:
    unread = [pod for pod in sorted(ready) if isinstance(rounds.get(pod), Refusal) or pod not in rounds]
    if unread:
        refusal = rounds.get(unread[0])
        reason, why = refusal if isinstance(refusal, Refusal) else ("PodNotScraped", "no sample of this pod")
        message = f"{len(unread)} of {len(ready)} ready pods tell no round over the evaluation set; {unread[0]}: {why}"
        return without_rounds(VerdictKind.NO_DATA, str(reason), message, limit, now)
    waiting = [pod for pod in sorted(ready) if rounds[pod] is None]
    if waiting:
        message = (
            f"{len(waiting)} of {len(ready)} ready pods have not computed the evaluation set yet, {waiting[0]} for one"
        )
        return without_rounds(VerdictKind.INCONCLUSIVE, "AwaitingEvaluation", message, limit, now)
    return None


def _together(verdicts: Mapping[str, MetricVerdict], beyond: Mapping[str, MetricVerdict]) -> MetricVerdict:
    for pod, verdict in beyond.items():
        message = f"{verdict.message}; without {pod} the other pods do not show it"
        return _told(verdict, len(verdicts)).with_(
            verdict=VerdictKind.POD_OUTLIER, reason="PodOutlier", message=message[:MAX_MESSAGE], pod=pod
        )
    undecided = {pod: one for pod, one in verdicts.items() if one.verdict is VerdictKind.INCONCLUSIVE}
    return _told(_worst(undecided or verdicts), len(verdicts))


def _worst(verdicts: Mapping[str, MetricVerdict]) -> MetricVerdict:
    return max(verdicts.values(), key=lambda one: (one.k, one.estimate or 0.0))


def _told(verdict: MetricVerdict, pods: int) -> MetricVerdict:
    return verdict.with_(pods=pods)


def without_rounds(kind: VerdictKind, reason: str, message: str, limit: float, now: datetime) -> MetricVerdict:
    """A verdict on perplexity that rests on no round."""
    return MetricVerdict(
        metric=MetricName.PERPLEXITY,
        verdict=kind,
        reason=reason,
        message=message[:MAX_MESSAGE],
        at=now,
        limit=limit,
        unit=KINDS[MetricName.PERPLEXITY].unit,
    )
