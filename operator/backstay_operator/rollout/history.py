"""Which revisions of the history may serve again, and whether a slow way back to one of them is under way."""

from backstay_contract.rollback import Target
from backstay_contract.rollout import Rollout
from backstay_contract.status import HistoryEntry, ModelDeploymentStatus

from backstay_operator.rollout.revision import Wanted


def refused(status: ModelDeploymentStatus, digest: str, retry_token: str) -> bool:
    """Whether the digest was rejected, and nobody asked to try it again."""
    return any(r.digest == digest and r.retry_token == retry_token for r in status.rejected)


def entry(status: ModelDeploymentStatus, revision: str) -> HistoryEntry | None:
    """What the history knows of a revision."""
    return next((h for h in reversed(status.history) if h.revision == revision), None)


def target(status: ModelDeploymentStatus, to: Target, retry_token: str, leaving: str) -> HistoryEntry | None:
    """The revision to bring up again when `leaving` is left; None where the history knows none.

    Where no other revision was ever verified, the one before it is the best there is.
    """
    possible = [
        served
        for served in reversed(status.history)
        if served.recipe is not None and served.revision != leaving and not refused(status, served.digest, retry_token)
    ]
    verified = [served for served in possible if served.verified]
    best = verified if verified and to is Target.LAST_VERIFIED else possible
    return best[0] if best else None


def way_back_is_open(status: ModelDeploymentStatus, aim: Wanted, rollout: Rollout) -> bool:
    """Whether the slow way back in the status is still the way to go: people ask for what they asked for when it began,
    and that is still refused, or may not go forward. A fix, or a retry, goes first."""
    returning = status.returning
    if returning is None or returning.asked != aim.revision:
        return False
    return rollout.paused or refused(status, aim.digest, rollout.retry_token)


def returning_to(status: ModelDeploymentStatus, aim: Wanted, rollout: Rollout) -> Wanted | None:
    """The revision that a slow way back brings up; None where there is none, or where it could not be brought up."""
    if status.returning is None or not way_back_is_open(status, aim, rollout):
        return None
    found = entry(status, status.returning.to)
    if found is None or found.recipe is None or refused(status, found.digest, rollout.retry_token):
        return None
    return Wanted(found.revision, found.recipe)
