"""The status that a pass leaves behind: the step's memory, and what people read, put together once."""

from collections.abc import Mapping
from typing import Any

from backstay_contract.reasons import Reason
from backstay_contract.status import Attempt, Colour, Condition, Fetching, ModelDeploymentStatus, Phase, Side

from backstay_operator import conditions
from backstay_operator.conditions import Wanted
from backstay_operator.rollout import history, kstatus, memory
from backstay_operator.rollout.actions import levers
from backstay_operator.rollout.decision import ColourPlan
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.observation import ColourState, WatchRound
from backstay_operator.rollout.plan import After
from backstay_operator.rollout.step import Step

MAX_MESSAGE = 1024


def status(
    facts: Facts,
    step: Step,
    phase: Phase,
    reason: Reason,
    after: After,
    plans: Mapping[Colour, ColourPlan],
    generation: int,
) -> ModelDeploymentStatus:
    """The new status. Equal inputs give an equal status, so that nothing is written when nothing changed."""
    observed = facts.observation.colours
    active = _side(observed, plans, after.selector)
    attempt: Attempt | None = step.changes.get("attempt", facts.attempt or facts.status.attempt)
    ready = active.ready if active else 0
    wanted = active.replicas if active else facts.spec.replicas
    fields: dict[str, Any] = {
        "observed_generation": generation,
        "phase": phase,
        "reason": reason.value,
        "message": step.sentence[:MAX_MESSAGE],
        "active": active,
        "candidate": _candidate(after, observed, plans, facts.observation.fetching),
        "previous": _previous(after, observed, plans),
        "replicas": wanted,
        "ready_replicas": ready,
        "ready": f"{ready}/{wanted}",
    }
    updated = facts.status.with_(**{**fields, "attempt": attempt, **step.changes})
    return updated.with_(conditions=_conditions(facts, updated, reason, after, generation))


def _side(
    observed: Mapping[Colour, ColourState], plans: Mapping[Colour, ColourPlan], colour: Colour | None
) -> Side | None:
    if colour is None or not observed[colour].exists or not observed[colour].digest:
        return None
    state = observed[colour]
    return Side(
        colour=colour,
        version=state.version,
        digest=state.digest,
        revision=state.revision,
        ready=state.ready,
        replicas=plans[colour].replicas,
    )


def _candidate(
    after: After,
    observed: Mapping[Colour, ColourState],
    plans: Mapping[Colour, ColourPlan],
    fetching: Fetching | None,
) -> Side | None:
    """The open attempt's colour before the flip; afterwards it is the active one."""
    attempt = after.attempt
    if attempt is None or attempt.switched_at is not None:
        return None
    state = observed[attempt.colour]
    return Side(
        colour=attempt.colour,
        version=attempt.version,
        digest=attempt.digest,
        revision=attempt.revision,
        ready=state.ready if state.attempt == attempt.id else 0,
        replicas=plans[attempt.colour].replicas,
        progress=fetching,
    )


def _previous(after: After, observed: Mapping[Colour, ColourState], plans: Mapping[Colour, ColourPlan]) -> Side | None:
    """The colour that served before, while it is kept warm."""
    attempt = after.attempt
    if after.selector is None or (attempt is not None and attempt.switched_at is None):
        return None
    other = after.selector.other
    return _side(observed, plans, other) if plans[other].replicas > 0 else None


def _conditions(
    facts: Facts, updated: ModelDeploymentStatus, reason: Reason, after: After, generation: int
) -> tuple[Condition, ...]:
    wanted = [_ready(updated), _progressing(updated, reason, after), _verified(updated, reason, after)]
    wanted.append(_degraded(facts, updated, reason))
    wanted += levers.conditions(facts)
    wanted += kstatus.conditions(facts, updated, reason, after)
    metrics = _metrics(facts)
    if metrics is not None:
        wanted.append(metrics)
    return conditions.build(facts.status.conditions, wanted, generation, facts.now)


def _ready(updated: ModelDeploymentStatus) -> Wanted:
    if updated.ready_replicas > 0:
        return Wanted("Ready", "True", Reason.READY, f"{updated.ready} pods of the active colour are ready")
    return Wanted("Ready", "False", Reason.NOT_READY, "no pod of the active colour is ready")


def _progressing(updated: ModelDeploymentStatus, reason: Reason, after: After) -> Wanted:
    under_way = after.attempt is not None or updated.phase is Phase.ROLLING_BACK
    if under_way or reason is Reason.WAITING_FOR_DRAIN:
        return Wanted("Progressing", "True", reason, updated.message)
    return Wanted("Progressing", "False", Reason.AT_REST, updated.message)


def _verified(updated: ModelDeploymentStatus, reason: Reason, after: After) -> Wanted:
    active = updated.active
    entry = next((h for h in reversed(updated.history) if active and h.revision == active.revision), None)
    if after.attempt is not None and after.attempt.switched_at is not None:
        return Wanted("Verified", "Unknown", reason, updated.message)
    if entry is None:
        return Wanted("Verified", "Unknown", Reason.NOT_READY, "nothing has served yet")
    return Wanted(
        "Verified",
        "True" if entry.verified else "False",
        memory.reason(entry.reason, Reason.SERVING),
        f"{entry.version} since {entry.at:%Y-%m-%dT%H:%M:%SZ}",
    )


def _degraded(facts: Facts, updated: ModelDeploymentStatus, reason: Reason) -> Wanted:
    """Something serves that is not as good as it should be: with cut answers, or for want of a better revision."""
    active, returning = updated.active, updated.returning
    if updated.degraded is not None and active is not None and updated.degraded.revision == active.revision:
        return Wanted("Degraded", "True", Reason.DEGRADED, updated.degraded.message)
    if updated.phase is Phase.HELD and reason in kstatus.TROUBLED:
        return Wanted("Degraded", "True", reason, updated.message)
    if returning is None or (active is not None and active.revision == returning.to):
        return Wanted("Degraded", "False", Reason.AT_REST if updated.attempt is None else reason, "")
    if history.returning_to(updated, facts.aim, facts.spec.rollout) is None:
        said = f"revision {returning.to} could not be brought up again; what serves stays: {returning.message}"
        return Wanted("Degraded", "True", Reason.NO_PREVIOUS, said[:MAX_MESSAGE])
    return Wanted("Degraded", "True", Reason.RETURNING, returning.message)


def _metrics(facts: Facts) -> Wanted | None:
    """Only a look can tell; between two looks the condition stays as it is."""
    look, attempt = facts.observation.look, facts.attempt
    if attempt is None and facts.watch is not None and look is not None:
        return _metrics_at_rest(facts, facts.watch)
    if look is None or attempt is None or not attempt.limits:
        return _as_before(facts)
    if attempt.held_since is not None:
        said = look.problem or (facts.verdict.message if facts.verdict else "not every ready pod could be read")
        return Wanted("MetricsAvailable", "False", Reason.METRICS_UNAVAILABLE, said)
    return Wanted("MetricsAvailable", "True", Reason.METRICS_AVAILABLE, f"read from {look.source or 'the pods'}")


def _as_before(facts: Facts) -> Wanted | None:
    before = next((c for c in facts.status.conditions if c.type == "MetricsAvailable"), None)
    if before is None:
        return None
    return Wanted(before.type, before.status, memory.reason(before.reason, Reason.METRICS_UNAVAILABLE), before.message)


def _metrics_at_rest(facts: Facts, watch: WatchRound) -> Wanted | None:
    """A watch that is blind is told after holdTimeoutSeconds, and when it sees again: a look alone writes nothing."""
    before = _as_before(facts)
    if watch.dark_since is None:
        if before is not None and before.status == "True":
            return before
        return Wanted("MetricsAvailable", "True", Reason.METRICS_AVAILABLE, "the watch reads the active colour's pods")
    if (facts.now - watch.dark_since).total_seconds() <= facts.spec.rollout.soak.hold_timeout_seconds:
        return before
    if before is not None and before.status == "False":
        return before
    said = facts.verdict.message if facts.verdict is not None else "no usable metrics"
    return Wanted("MetricsAvailable", "False", Reason.METRICS_UNAVAILABLE, f"the watch is blind: {said}"[:MAX_MESSAGE])
