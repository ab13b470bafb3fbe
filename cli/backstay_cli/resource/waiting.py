"""What `--wait` waits for: each goal looks at a status and says how far it is. Pure."""

from collections.abc import Callable
from typing import NamedTuple

from backstay_contract.status import ModelDeploymentStatus, Phase


class Progress(NamedTuple):
    """How far a goal is; `failed` where waiting on is in vain."""

    line: str
    done: bool = False
    failed: bool = False


Goal = Callable[[ModelDeploymentStatus], Progress]


def seen(_: ModelDeploymentStatus) -> Progress:
    """The operator knows of the change; the waiting itself makes sure of that."""
    return Progress("the operator has seen it", done=True)


def ended(attempt: str) -> Goal:
    """The attempt has ended, and requests go to what serves now."""

    def goal(status: ModelDeploymentStatus) -> Progress:
        open_still = status.attempt is not None and status.attempt.id == attempt and status.attempt.ended_at is None
        if open_still:
            return Progress(line_of(status), failed=status.phase is Phase.HELD)
        return Progress(line_of(status), done=status.phase is not Phase.ROLLING_BACK)

    return goal


def flipped(attempt: str) -> Goal:
    """The Service selects the attempt's candidate."""

    def goal(status: ModelDeploymentStatus) -> Progress:
        one = status.attempt
        if one is None or one.id != attempt:
            return Progress(line_of(status), failed=True)
        switched = one.switched_at is not None
        return Progress(line_of(status), done=switched, failed=not switched and one.ended_at is not None)

    return goal


def kept(attempt: str) -> Goal:
    """The attempt is over, and what it brought serves on."""

    def goal(status: ModelDeploymentStatus) -> Progress:
        one = status.attempt
        over = one is None or one.id != attempt or one.ended_at is not None
        return Progress(line_of(status), done=over, failed=status.phase is Phase.ROLLING_BACK)

    return goal


def serves(revision: str) -> Goal:
    """The Service selects the revision and it has ready pods."""

    def goal(status: ModelDeploymentStatus) -> Progress:
        active = status.active
        if active is not None and active.revision == revision and active.ready > 0:
            return Progress(line_of(status), done=True)
        refused = any(one.revision == revision for one in status.rejected) or status.reason == "RevisionUnknown"
        return Progress(line_of(status), failed=refused and status.phase in (Phase.SERVING, Phase.FAILED))

    return goal


def tried_again(digest: str, after: int) -> Goal:
    """A new attempt of the digest was flipped to. `after`: how many attempts there were before."""

    def goal(status: ModelDeploymentStatus) -> Progress:
        one = status.attempt
        if one is None or status.attempts <= after or one.digest != digest:
            return Progress(line_of(status))
        switched = one.switched_at is not None
        return Progress(line_of(status), done=switched, failed=not switched and one.ended_at is not None)

    return goal


def line_of(status: ModelDeploymentStatus) -> str:
    """Where the rollout stands, in one line."""
    ready = f", {status.ready} pods ready" if status.active is not None else ""
    return f"{status.phase}: {status.reason or 'not seen yet'}{ready}{f': {status.message}' if status.message else ''}"
