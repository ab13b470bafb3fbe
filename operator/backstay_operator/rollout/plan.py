"""What each colour's Deployment shall be after a step: replicas, template, mode. Scale-down of the loser is here."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from backstay_contract.mode import Mode
from backstay_contract.rollout import Rollout
from backstay_contract.status import Attempt, Colour, Degraded

from backstay_operator.rollout import room
from backstay_operator.rollout.decision import ColourPlan
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.observation import ColourState, FlipRecord
from backstay_operator.rollout.revision import Wanted, source_of


@dataclass(frozen=True, slots=True)
class After:
    """The situation after the step: what the plan is made for."""

    selector: Colour | None
    attempt: Attempt | None
    """The open attempt."""
    flip: FlipRecord | None
    """The last flip, this pass's included."""


def colours(facts: Facts, after: After, degraded: Degraded | None) -> Mapping[Colour, ColourPlan]:
    return {colour: _colour(facts, after, degraded, facts.observation.colours[colour]) for colour in Colour}


def _colour(facts: Facts, after: After, degraded: Degraded | None, state: ColourState) -> ColourPlan:
    attempt = after.attempt
    if after.selector is state.colour:
        return _active(facts, after, degraded, state)
    if attempt is None:
        return ColourPlan(retired_replicas(facts, after, state), mode=Mode.STANDBY)
    if attempt.colour is state.colour and attempt.switched_at is None:
        if room.candidate_stays_down(facts, state):
            return ColourPlan(0)
        # An address that was wrong is mended by an edit that makes no new revision: the pods must learn of it.
        moved = state.source is not None and state.source != source_of(facts.wanted.recipe.model)
        build = facts.wanted if moved or state.attempt != attempt.id else None
        anew = build is not None and state.exists and state.stuck > 0
        return ColourPlan(facts.candidate_wanted, build=build, attempt=attempt.id, anew=anew, mode=Mode.NORMAL)
    if attempt.colour is not state.colour and attempt.switched_at is not None:
        return ColourPlan(state.replicas, mode=Mode.STANDBY)  # previous, kept warm until the verdict
    return ColourPlan(retired_replicas(facts, after, state), mode=Mode.STANDBY)


def _active(facts: Facts, after: After, degraded: Degraded | None, state: ColourState) -> ColourPlan:
    """The active colour never shrinks while an attempt is open: its pods may be needed for the way back. Where
    rollout.strategy is Recreate, it goes down for the candidate."""
    if after.attempt is not None and after.attempt.switched_at is None and room.active_makes_way(facts):
        return ColourPlan(0)
    replicas = _active_replicas(facts, after, state)
    mode = Mode.DEGRADED if degraded is not None and degraded.revision == state.revision else Mode.NORMAL
    if facts.vanished is not None and state.colour is facts.active_colour:
        return ColourPlan(replicas, build=facts.vanished, attempt=_rebuilt_as(facts.vanished, after, state), mode=mode)
    return ColourPlan(replicas, mode=mode)


def _active_replicas(facts: Facts, after: After, state: ColourState) -> int:
    """As the spec says. While an attempt is open no fewer than there are; and before the flip no more, unless they were
    asked for since it was opened: an edit of version and replicas is the candidate's."""
    wanted, attempt = facts.spec.replicas, after.attempt
    if attempt is None or state.replicas == 0:
        return wanted
    grows = attempt.switched_at is not None or wanted > attempt.replicas
    return max(wanted if grows else 0, state.replicas)


def _rebuilt_as(vanished: Wanted, after: After, state: ColourState) -> str:
    """The attempt that a Deployment belongs to which is built again. After a way back the flip's record names the
    loser's, so that nothing tells the winner's any more: it gets one before the first."""
    if after.attempt is not None and after.attempt.colour is state.colour:
        return after.attempt.id
    flipped = after.flip.attempt if after.flip is not None else ""
    return flipped if flipped.startswith(f"{vanished.revision}-") else f"{vanished.revision}-0"


def retired_replicas(facts: Facts, after: After, state: ColourState) -> int:
    """Replicas of a colour that nothing needs any more: 0 as soon as it can lose its pods without losing a request.

    Never less while the live Service still selects it: not in the pass that flips away from it, which may be killed in
    between, nor in the one that puts back a selector that somebody pointed at it.
    """
    if facts.observation.selector is state.colour:
        return state.replicas
    if state.replicas == 0 or not had_traffic(after, state):
        return 0
    since = _retired_since(facts, after)
    seconds = (facts.now - since).total_seconds() if since else float("inf")
    return 0 if may_scale_down(state, seconds, facts.spec.rollout) else state.replicas


def may_scale_down(state: ColourState, seconds: float, rollout: Rollout) -> bool:
    """The floor is scaleDownDelaySeconds, the cap drainTimeoutSeconds; between them the last request decides.

    A ready pod whose in-flight count is unknown counts as busy.
    """
    if seconds >= max(rollout.drain_timeout_seconds, rollout.scale_down_delay_seconds):
        return True
    drained = state.endpoints == 0 and all(pod.in_flight == 0 for pod in state.pods if pod.ready)
    return drained and seconds >= rollout.scale_down_delay_seconds


def had_traffic(after: After, state: ColourState) -> bool:
    """Whether the Service ever selected this attempt of the colour: a candidate that was only tried has no clients."""
    if after.flip is None or after.selector is None:
        return False
    served = after.flip.attempt == state.attempt
    # The loser of a promotion served before it; the loser of a way back is the attempt that the record names.
    return served or (after.flip.to is not state.colour and not _only_tried(after, state))


def _only_tried(after: After, state: ColourState) -> bool:
    """The colour runs an attempt that is newer than the last flip: it was never selected."""
    return after.flip is not None and attempt_number(state.attempt) > attempt_number(after.flip.attempt)


def attempt_number(attempt: str) -> int:
    """The counter at the end of an attempt's id; -1 where there is none."""
    tail = attempt.rpartition("-")[2]
    return int(tail) if tail.isdigit() else -1


def _retired_since(facts: Facts, after: After) -> datetime | None:
    """When the colour lost its last use: the flip, or the later end of the soak that kept it warm."""
    ended = facts.status.attempt.ended_at if facts.status.attempt else None
    flipped = after.flip.at if after.flip else None
    return max((t for t in (ended, flipped) if t is not None), default=None)
