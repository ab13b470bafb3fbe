"""A ModelDeployment as the API server holds it, taken apart once per pass."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from backstay_contract import names
from backstay_contract.resource import ModelDeploymentSpec, parse_spec
from backstay_contract.status import ModelDeploymentStatus, Phase, parse_status
from pydantic import ValidationError

from backstay_operator.desired.common import Owner

Json = dict[str, Any]

FINALIZER = f"{names.GROUP}/teardown"
MAX_SAID = 5
"""Wrong fields that a message names."""


@dataclass(frozen=True)
class Resource:
    """One ModelDeployment."""

    body: Json
    owner: Owner
    generation: int
    finalizers: tuple[str, ...]
    deleting_since: datetime | None

    @property
    def stored_status(self) -> Json:
        """The status exactly as it is stored."""
        status: Json = self.body.get("status") or {}
        return status

    @property
    def held(self) -> bool:
        """Whether our finalizer holds it."""
        return FINALIZER in self.finalizers

    def spec(self, *, node_cache: bool) -> ModelDeploymentSpec:
        """Raises pydantic.ValidationError where the stored spec is not valid under this version and its settings."""
        return parse_spec(self.body.get("spec") or {}, node_cache=node_cache)

    def status(self) -> ModelDeploymentStatus:
        """Raises pydantic.ValidationError where the stored status is not one."""
        return parse_status(self.stored_status)


def read(body: Json) -> Resource:
    """The resource in the API's JSON."""
    metadata: Json = body["metadata"]
    deleted = metadata.get("deletionTimestamp")
    return Resource(
        body=body,
        owner=Owner(metadata["namespace"], metadata["name"], metadata["uid"]),
        generation=int(metadata.get("generation", 0)),
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting_since=datetime.fromisoformat(deleted) if deleted else None,
    )


def is_at_rest(body: Json) -> bool:
    """Whether nothing is under way, as the resource itself says: passes over it usually find nothing to do."""
    metadata, status = body["metadata"], body.get("status") or {}
    attempt = status.get("attempt")
    return (
        "deletionTimestamp" not in metadata
        and status.get("phase") in (Phase.SERVING, Phase.FAILED)
        and status.get("observedGeneration") == metadata.get("generation")
        and (attempt is None or "endedAt" in attempt)
        and not status.get("returning")
    )


def sentence(error: ValidationError) -> str:
    """Which fields are wrong and why, for people."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"spec.{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in found[:MAX_SAID]]
    more = f" and {len(found) - MAX_SAID} more" if len(found) > MAX_SAID else ""
    return "; ".join(said) + more
