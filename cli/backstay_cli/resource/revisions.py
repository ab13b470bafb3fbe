"""The revisions that served: found by what people call them, and shown as a table. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from backstay_contract import digest as digests
from backstay_contract.status import HistoryEntry, ModelDeploymentStatus

from backstay_cli.errors import refused
from backstay_cli.resource.view import age

COLUMNS = ("REVISION", "VERSION", "DIGEST", "VERIFIED", "REASON", "SINCE", "NOW")


def find(status: ModelDeploymentStatus, name: str) -> HistoryEntry:
    """The one that served under that revision (or its first digits) or version. Raises CliError."""
    served = list(status.history)
    by_revision = [entry for entry in served if len(name) >= 4 and entry.revision.startswith(name)]
    found = by_revision or [entry for entry in served if entry.version == name]
    if not found:
        known = ", ".join(f"{entry.revision} ({entry.version})" for entry in reversed(served)) or "none yet"
        raise refused(f"--to {name}: no such revision or version served; the history has {known}")
    if len(found) > 1:
        several = ", ".join(entry.revision for entry in reversed(found))
        raise refused(f"--to {name}: names several revisions ({several}); give one of them")
    return _buildable(found[0])


def previous(status: ModelDeploymentStatus) -> HistoryEntry:
    """The newest one that is not active. Raises CliError."""
    active = status.active.revision if status.active is not None else None
    served = [entry for entry in status.history if entry.revision != active]
    if not served:
        raise refused("no other revision served yet, so there is nothing to go back to")
    return _buildable(served[-1])


def _buildable(entry: HistoryEntry) -> HistoryEntry:
    if entry.recipe is None:
        raise refused(
            f"{entry.version} (revision {entry.revision}) served under an older operator, which did not keep what it "
            "is built from; apply a spec that asks for it instead"
        )
    return entry


def rows(status: ModelDeploymentStatus, now: datetime) -> list[list[str]]:
    """The cells of each revision that served under COLUMNS, the newest first."""
    return [_row(status, entry, now) for entry in reversed(status.history)]


def _row(status: ModelDeploymentStatus, entry: HistoryEntry, now: datetime) -> list[str]:
    verified = "yes" if entry.verified else "no"
    short = digests.short(entry.digest)
    return [entry.revision, entry.version, short, verified, entry.reason, age(now - entry.at), _now(status, entry)]


def _now(status: ModelDeploymentStatus, entry: HistoryEntry) -> str:
    if status.active is not None and status.active.revision == entry.revision:
        return "active"
    if status.previous is not None and status.previous.revision == entry.revision:
        return "previous, kept warm"
    if any(rejected.digest == entry.digest for rejected in status.rejected):
        return "rejected"
    return "-" if entry.recipe is not None else "cannot be built again"


def as_json(status: ModelDeploymentStatus) -> Sequence[dict[str, Any]]:
    """The same for scripts, the newest first."""
    return [
        {
            "revision": entry.revision,
            "version": entry.version,
            "digest": entry.digest,
            "image": entry.image,
            "verified": entry.verified,
            "reason": entry.reason,
            "at": entry.at.isoformat(),
            "active": status.active is not None and status.active.revision == entry.revision,
            "canBeBuilt": entry.recipe is not None,
        }
        for entry in reversed(status.history)
    ]
