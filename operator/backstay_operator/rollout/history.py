"""Which revisions of the history may serve again, and whether a slow way back to one of them is under way."""

from backstay_contract.rollback import Target
from backstay_contract.status import HistoryEntry, ModelDeploymentStatus

from backstay_operator.rollout.revision import Wanted


def refused(status: ModelDeploymentStatus, digest: str, retry_token: str) -> bool:
    """Whether the digest was rejected, and nobody asked to try it again."""
    return any(r.digest == digest and r.retry_token == retry_token for r in status.rejected)


def target(status: ModelDeploymentStatus, to: Target, retry_token: str, leaving: str) -> HistoryEntry | None:
    """The revision to bring up again when `leaving` is left; None where the history knows none.

    Where no other revision was ever verified, the one before it is the best there is.
    """
    possible = [
        entry
        for entry in reversed(status.history)
        if entry.recipe is not None and entry.revision != leaving and not refused(status, entry.digest, retry_token)
    ]
    verified = [entry for entry in possible if entry.verified]
    best = verified if verified and to is Target.LAST_VERIFIED else possible
    return best[0] if best else None


def way_back_is_open(status: ModelDeploymentStatus, aim: Wanted, retry_token: str) -> bool:
    """Whether the slow way back in the status is still the way to go: people ask for what they asked for when it began,
    and that is still refused. A fix, or a retry, goes first."""
    returning = status.returning
    if returning is None or returning.asked != aim.revision:
        return False
    return refused(status, aim.digest, retry_token)


def returning_to(status: ModelDeploymentStatus, aim: Wanted, retry_token: str) -> Wanted | None:
    """The revision that a slow way back brings up; None where there is none, or where it could not be brought up."""
    if status.returning is None or not way_back_is_open(status, aim, retry_token):
        return None
    entry = next((h for h in reversed(status.history) if h.revision == status.returning.to), None)
    if entry is None or entry.recipe is None or refused(status, entry.digest, retry_token):
        return None
    return Wanted(entry.revision, entry.recipe)
