"""From what a pass sees to the facts: which colour is active, what shall serve, and what the metrics say."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import Attempt, Colour, ModelDeploymentStatus

from backstay_operator.rollout import history, judging, revision, watching
from backstay_operator.rollout.facts import Facts, is_paused
from backstay_operator.rollout.observation import Observation
from backstay_operator.rollout.revision import Known, Wanted


def derive(spec: ModelDeploymentSpec, status: ModelDeploymentStatus, observation: Observation, now: datetime) -> Facts:
    """The facts of one pass; a look at the metrics is counted and judged here."""
    active = _active_colour(status, observation)
    asked = revision.of_spec(spec, observation.default_image, _in_use(status, observation))
    aim = _pinned(spec, status, asked) or asked
    wanted = history.returning_to(status, aim, spec.rollout) or aim
    attempt = status.open_attempt
    facts = Facts(spec, status, observation, now, asked, aim, wanted, active, attempt, None)
    if attempt is None:
        return _watched(facts)
    attempt = _with_recipe(_with_limits(attempt, observation), wanted)
    return _judged(facts, _paused(attempt, is_paused(spec, asked, wanted), now))


def _with_limits(attempt: Attempt, seen: Observation) -> Attempt:
    """An attempt that is in its soak without limits, after the status was lost, asks its pods for them."""
    if attempt.switched_at is None or attempt.limits or not seen.limits_known:
        return attempt
    return attempt.with_(limits=judging.request_limits(seen.limits))


def _with_recipe(attempt: Attempt, wanted: Wanted) -> Attempt:
    """What the spec says now of the attempt's revision: an address may have moved since it began."""
    if attempt.revision != wanted.revision or attempt.recipe == wanted.recipe:
        return attempt
    return attempt.with_(recipe=wanted.recipe)


def _judged(facts: Facts, attempt: Attempt) -> Facts:
    """With the look counted into the open attempt, and the one beside it for the other colour."""
    spec, seen, now, switched = facts.spec, facts.observation, facts.now, facts.switched
    other = seen.colours[attempt.colour.other]
    attempt, verdict = judging.advance(spec, attempt, seen.colours[attempt.colour], seen.look, now, switched)
    own_limits = watching.recorded_limits(facts.status, other.revision)
    attempt, beside = judging.advance_previous(spec, attempt, other, own_limits, seen.previous_look, now, switched)
    return replace(facts, attempt=attempt, verdict=verdict, previous_verdict=beside)


def _watched(facts: Facts) -> Facts:
    """With the look counted into the watch's round."""
    if facts.active is None:
        return facts
    seen = facts.observation
    watch, verdict = watching.advance(facts.spec, facts.status, facts.active, seen.look, seen.watch, facts.now)
    return replace(facts, watch=watch, verdict=verdict)


def _pinned(spec: ModelDeploymentSpec, status: ModelDeploymentStatus, asked: Wanted) -> Wanted | None:
    """The revision that rollout.rollbackTo names; None where it names none, or one that nobody can build."""
    named, tried = spec.rollout.rollback_to, status.attempt
    if named == asked.revision:
        return asked
    if tried is not None and tried.revision == named and tried.recipe is not None:
        return Wanted(tried.revision, tried.recipe)
    return revision.of_history(status.history, named)


def _paused(attempt: Attempt, paused: bool, now: datetime) -> Attempt:
    """The attempt with the pause in mind: when it is over, what ran before it runs anew."""
    if paused:
        return attempt if attempt.paused_since is not None else attempt.with_(paused_since=now)
    if attempt.paused_since is None:
        return attempt
    held = now if attempt.held_since is not None else None
    return attempt.with_(paused_since=None, progress_since=now, held_since=held)


def _active_colour(status: ModelDeploymentStatus, observation: Observation) -> Colour | None:
    """The colour that serves: the Service's own record of its last flip, so that a selector changed by somebody else
    is put back; where the Service was deleted, what the status remembers."""
    if observation.flip is not None:
        return observation.flip.to
    if status.active is not None and observation.colours[status.active.colour].exists:
        return status.active.colour
    return observation.selector


def _in_use(status: ModelDeploymentStatus, observation: Observation) -> Iterable[Known]:
    for state in observation.colours.values():
        if state.exists:
            yield Known(state.revision, state.image)
    if status.attempt is not None:
        yield Known(status.attempt.revision, status.attempt.image)
    for served in status.history:
        yield Known(served.revision, served.image)
