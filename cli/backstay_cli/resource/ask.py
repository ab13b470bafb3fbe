"""What a person may ask of a rollout: the part of the spec that is changed for it. Pure."""

from typing import Any, NamedTuple

from backstay_contract import digest as digests
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.rollout import Promotion
from backstay_contract.status import Attempt, ModelDeploymentStatus, Phase

from backstay_cli.errors import CliError, refused
from backstay_cli.resource import waiting
from backstay_cli.resource.revisions import find, previous
from backstay_cli.resource.waiting import Goal


class Change(NamedTuple):
    """A change of the spec, what it means, and when what it asks for has come about."""

    patch: dict[str, Any]
    said: str
    goal: Goal


def retry(spec: ModelDeploymentSpec, status: ModelDeploymentStatus, token: str) -> Change:
    """Tries the rejected digest again, with no old evidence. Raises CliError when none was rejected."""
    wanted = digests.normalise(spec.model.sha256)
    if not any(one.digest == wanted for one in status.rejected):
        raise refused(f"spec.model.sha256 {digests.short(wanted)} is not among the rejected digests; nothing to retry")
    return Change(
        {"rollout": {"retryToken": token}},
        f"rollout.retryToken {token}: the rejected digest {digests.short(wanted)} is tried again in a new attempt",
        waiting.tried_again(wanted, status.attempts),
    )


def promote(spec: ModelDeploymentSpec, status: ModelDeploymentStatus, attempt: str | None) -> Change:
    """Lets the attempt that waits be flipped to, or one that is held after the flip be kept.

    Raises CliError when none waits, or another than `attempt`.
    """
    if _is_held(status) and status.attempt is not None and spec.rollout.promotion is Promotion.AUTOMATIC:
        _same(attempt, status.attempt, "the attempt that is held")
        held = status.attempt
        said = f"rollout.promote {held.id}: {held.version} is kept, unverified, although {status.message}"
        return Change({"rollout": {"promote": held.id}}, said, waiting.kept(held.id))
    if spec.rollout.promotion is not Promotion.MANUAL:
        if spec.rollout.paused:
            raise refused("rollout.paused holds the flip; use backstay resume")
        raise refused("rollout.promotion is Automatic: the candidate is flipped to without being asked")
    if status.phase is not Phase.AWAITING_PROMOTION or status.attempt is None:
        raise refused(f"no attempt waits for promotion (phase {status.phase})")
    _same(attempt, status.attempt, "the attempt that waits")
    pause = "; rollout.paused holds the flip until backstay resume" if spec.rollout.paused else ""
    return Change(
        {"rollout": {"promote": status.attempt.id}},
        f"rollout.promote {status.attempt.id}: {status.attempt.version} may be flipped to{pause}",
        waiting.flipped(status.attempt.id),
    )


def _is_held(status: ModelDeploymentStatus) -> bool:
    """The flip was made, and the operator cannot decide."""
    tried = status.attempt
    return status.phase is Phase.HELD and tried is not None and tried.switched_at is not None and tried.ended_at is None


def abort(status: ModelDeploymentStatus, attempt: str | None) -> Change:
    """Ends the open attempt. Raises CliError when none is open, or another than `attempt`."""
    tried = status.attempt
    if tried is None or tried.ended_at is not None:
        raise refused(
            f"no attempt is open (phase {status.phase}), so there is nothing to abort; "
            "to serve an older revision use backstay rollback, to keep new ones out use backstay pause"
        )
    _same(attempt, tried, "the open attempt")
    back = ", and the Service goes back" if tried.switched_at is not None else ""
    return Change(
        {"rollout": {"abort": tried.id}},
        f"rollout.abort {tried.id}: {tried.version} ({digests.short(tried.digest)}) ends and is rejected{back}",
        waiting.ended(tried.id),
    )


def _same(asked: str | None, found: Attempt, what: str) -> None:
    if asked is not None and asked != found.id:
        raise refused(f"--attempt {asked}: {what} is {found.id}")


def rollback(spec: ModelDeploymentSpec, status: ModelDeploymentStatus, to: str | None) -> Change:
    """Pins a revision of the history. Raises CliError when there is none such, or it cannot serve."""
    target = find(status, to) if to is not None else previous(status)
    if spec.rollout.rollback_to == target.revision:
        raise refused(f"rollout.rollbackTo is {target.revision} already; {waiting.line_of(status)}")
    tried = status.attempt is not None and status.attempt.ended_at is None
    if status.active is not None and status.active.revision == target.revision and not tried:
        raise refused(f"{target.version} (revision {target.revision}) serves already; to keep it, use backstay pause")
    spurned = [r for r in status.rejected if r.digest == target.digest and r.retry_token == spec.rollout.retry_token]
    if spurned:
        raise refused(
            f"{target.version} ({digests.short(target.digest)}) was rejected: {spurned[-1].reason}; it is not brought "
            "back unless rollout.retryToken changes, too"
        )
    return Change(
        {"rollout": {"rollbackTo": target.revision}},
        f"rollout.rollbackTo {target.revision}: {target.version} ({digests.short(target.digest)}) shall serve "
        "until backstay rollback --clear",
        waiting.serves(target.revision),
    )


def clear_rollback(spec: ModelDeploymentSpec) -> Change:
    """Lets what the rest of the spec asks for serve again."""
    if not spec.rollout.rollback_to:
        raise refused("rollout.rollbackTo is empty already: what the spec asks for serves, or is tried")
    said = (
        f"rollout.rollbackTo is emptied: {spec.model.version} ({digests.short(spec.model.sha256)}) is asked for again"
    )
    return Change({"rollout": {"rollbackTo": ""}}, said, waiting.seen)


def pause(spec: ModelDeploymentSpec) -> Change:
    """Lets nothing go forward."""
    if spec.rollout.paused:
        raise _already("paused", "resume")
    said = "rollout.paused: no attempt is opened, no candidate is flipped to and no soak ends; the way back stays open"
    return Change({"rollout": {"paused": True}}, said, waiting.seen)


def resume(spec: ModelDeploymentSpec) -> Change:
    if not spec.rollout.paused:
        raise _already("running", "pause")
    return Change({"rollout": {"paused": False}}, "rollout.paused is false: the rollout goes on", waiting.seen)


def _already(state: str, other: str) -> CliError:
    return refused(f"the rollout is {state} already; did you mean backstay {other}?")
