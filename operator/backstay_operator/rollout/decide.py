"""The machine's one entry: spec, memory and observation in, a decision with its reason out. Pure and total."""

from datetime import datetime

from backstay_contract.reasons import Reason
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import Attempt, ModelDeploymentStatus, Phase

from backstay_operator.rollout import deriving, plan, report
from backstay_operator.rollout.actions import lasting
from backstay_operator.rollout.decision import Decision, Event, Flip
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.observation import Observation
from backstay_operator.rollout.plan import After
from backstay_operator.rollout.step import Step
from backstay_operator.rollout.transitions import AFTER, AT_REST, BEFORE, TRANSITIONS, Stage, Tell, Transition

POLL_SECONDS = 1.0
"""Between two passes while something outside the API server is waited for: a smoke inference, drained requests."""
NODES_SECONDS = 10.0
"""Between two looks at the nodes while there is no room: nothing tells when some other pod leaves."""
SETTLED_SECONDS = 30.0
"""Between two passes while a deadline runs."""


def decide(
    spec: ModelDeploymentSpec,
    status: ModelDeploymentStatus,
    observation: Observation,
    now: datetime,
    generation: int,
) -> Decision:
    """One step of the machine. `generation` is the resource's own, for observedGeneration."""
    facts = deriving.derive(spec, status, observation, now)
    where = stage(facts)
    phase = consistent_phase(status.phase, where, facts.attempt)
    row = next(r for r in TRANSITIONS if phase in r.sources and r.stage is where and r.guard(facts))
    step = row.action(facts)
    target = row.without_active if row.without_active and facts.active is None else row.target
    reason = step.reason or row.reason
    changed = target is not status.phase
    attempt = step.changes.get("attempt", facts.attempt)
    open_attempt = attempt if attempt is not None and attempt.ended_at is None else None
    after = After(
        selector=step.flip.to if step.flip else facts.active_colour,
        attempt=open_attempt,
        flip=step.flip or observation.flip,
    )
    step |= lasting.changes(facts, step.changes, after)
    plans = plan.colours(facts, after, step.changes["degraded"])
    told = report.status(facts, step, target, reason, after, plans, generation)
    return Decision(
        status=told,
        selector=after.selector,
        preview=open_attempt.colour if open_attempt and open_attempt.switched_at is None else None,
        colours=plans,
        reason=reason,
        sentence=step.sentence,
        flip=Flip(expected=facts.observation.selector, record=step.flip) if step.flip else None,
        events=_events(row, step, reason, facts, target) if changed or reason.value != status.reason else (),
        look_again=0.0 if changed or _memory_grew(status, told) else _look_again(facts, after, target),
        watch=facts.watch,
    )


def stage(facts: Facts) -> Stage:
    if facts.attempt is None:
        return Stage.REST
    return Stage.SWITCHED if facts.switched else Stage.TRIED


def consistent_phase(phase: Phase, where: Stage, attempt: Attempt | None) -> Phase:
    """The remembered phase, or the nearest one that fits the stage and what the attempt remembers: a status that was
    edited or lost never traps the machine."""
    if where is Stage.REST:
        return phase if phase in (*AT_REST, Phase.ROLLING_BACK) else Phase.SERVING
    if attempt is not None and attempt.switched_at is not None:
        return phase if phase in AFTER else Phase.SOAKING
    if where is Stage.TRIED:
        return phase if phase in BEFORE else Phase.STARTING
    return phase if phase in BEFORE else Phase.SERVING


def _events(row: Transition, step: Step, reason: Reason, facts: Facts, target: Phase) -> tuple[Event, ...]:
    if row.tell is Tell.NOTHING:
        return ()
    attempt = step.changes.get("attempt", facts.attempt)
    warning = row.tell is Tell.WARNING
    if attempt is None:
        # No attempt names it: the time does, so that the same step months later is told again.
        return (Event(f"rest.{target}.{reason}.{facts.now:%Y%m%d%H%M%S}".lower(), reason, step.sentence, warning),)
    if attempt.ended_at is not None:
        return (Event(_end_id(attempt), reason, step.sentence, warning),)
    return (Event(f"{attempt.id}.{target}.{reason}".lower(), reason, step.sentence, warning),)


def _end_id(attempt: Attempt) -> str:
    return f"{attempt.id}.ended.{attempt.outcome}".lower()


def _memory_grew(before: ModelDeploymentStatus, now: ModelDeploymentStatus) -> bool:
    """A check was passed in this pass, or a slow way back began: the next step need not wait."""
    old, new = before.attempt, now.attempt
    if now.returning is not None and now.returning != before.returning:
        return True
    return new is not None and new.smoke_passed_at is not None and (old is None or old.smoke_passed_at is None)


def _look_again(facts: Facts, after: After, phase: Phase) -> float | None:
    attempt = after.attempt
    if attempt is not None and attempt.switched_at is not None:
        return facts.spec.rollout.soak.interval_seconds
    if phase in (Phase.CHECKING, Phase.HELD, Phase.ROLLING_BACK):
        return POLL_SECONDS
    if phase is Phase.AWAITING_PROMOTION:
        return SETTLED_SECONDS / 6
    if phase is Phase.STARTING:
        return POLL_SECONDS if attempt is not None and attempt.smoke_passed_at else SETTLED_SECONDS / 6
    if phase is Phase.PENDING and attempt is not None:
        return NODES_SECONDS
    other_up = any(
        state.replicas > 0 or state.pods
        for colour, state in facts.observation.colours.items()
        if colour is not after.selector
    )
    return POLL_SECONDS if other_up else None
