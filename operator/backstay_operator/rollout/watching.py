"""The watch after the soak: the same judge, in rounds, over evidence that only the operator's memory holds.

A round ends after a while, since a long good past would hide a trouble that begins. A restart begins one, too.
"""

from collections.abc import Sequence
from datetime import datetime

from backstay_contract.evidence import AttemptVerdict, VerdictKind
from backstay_contract.reasons import Reason
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.rollback import AfterVerified
from backstay_contract.status import MetricLimit, ModelDeploymentStatus
from backstay_judge.settings import Settings

from backstay_operator.rollout import history, judging
from backstay_operator.rollout.observation import ColourState, Look, WatchRound


def limits(spec: ModelDeploymentSpec, status: ModelDeploymentStatus, revision: str) -> Sequence[MetricLimit]:
    """What the revision is watched by; empty where nothing is to be watched, or a person took it in spite of that.

    One whose answers are cut is watched in any case: nothing else ends that.
    """
    if is_degraded(status, revision):
        return recorded_limits(status, revision)
    entry = history.entry(status, revision)
    overruled = entry is not None and entry.reason == Reason.OVERRULED
    if overruled or spec.rollback.after_verified is AfterVerified.IGNORE:
        return ()
    return recorded_limits(status, revision)


def is_degraded(status: ModelDeploymentStatus, revision: str) -> bool:
    """Whether that revision's answers are cut."""
    return status.degraded is not None and status.degraded.revision == revision


def recorded_limits(status: ModelDeploymentStatus, revision: str) -> Sequence[MetricLimit]:
    """What the revision was judged by when it came into service, or would have been by its own baselines."""
    entry = history.entry(status, revision)
    if entry is None or entry.limits or entry.recipe is None:
        return entry.limits if entry is not None else ()
    return judging.request_limits(entry.recipe.baselines.limits())


def advance(
    spec: ModelDeploymentSpec,
    status: ModelDeploymentStatus,
    active: ColourState,
    look: Look | None,
    before: WatchRound | None,
    now: datetime,
) -> tuple[WatchRound | None, AttemptVerdict | None]:
    """The round after this pass's look, and what the judge says of it; as before where there was no look."""
    given = limits(spec, status, active.revision)
    if not given or not active.exists:
        return None, None
    degraded = is_degraded(status, active.revision)
    same = before is not None and (before.attempt, before.degraded) == (active.attempt, degraded)
    round_ = before if same and before is not None and not _is_over(spec, before, now) else None
    if look is None:
        return before if same else None, None
    watch = spec.rollback.watch
    settings = Settings(alpha=watch.alpha, alpha_pass=spec.rollout.soak.alpha_pass)
    wanted = judging.limits_of(spec, given)
    coverage = judging.read(look, active, active.attempt, active.digest, wanted, now)
    evidence = round_.evidence if round_ is not None else ()
    evidence, verdict = judging.count(evidence, coverage, wanted, now, watch.interval_seconds, settings)
    dark = verdict.verdict is VerdictKind.NO_DATA
    dark_since = (before.dark_since if same and before is not None else None) or now
    return (
        WatchRound(
            active.attempt,
            degraded,
            round_.since if round_ is not None else now,
            evidence,
            dark_since if dark else None,
        ),
        verdict,
    )


def _is_over(spec: ModelDeploymentSpec, round_: WatchRound, now: datetime) -> bool:
    return (now - round_.since).total_seconds() >= spec.rollback.watch.round_seconds
