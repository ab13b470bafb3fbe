"""Who leads, as the Lease says: what is seen, what follows from it, what is written. Pure.

Two clocks: the Lease's own times are for people; everything is decided by seconds of this process's monotonic clock,
so that clocks that differ between machines lead to no second leader.

A leader counts its lease from before it sent the renewal, a challenger from after it saw the renewal; and a leader
stops `margin` seconds before that time is over. So nobody begins while another may still write.
"""

import math
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from backstay_contract import names

Json = dict[str, Any]
API_VERSION = "coordination.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Terms:
    """How long things take, in seconds."""

    lease: float = 15.0
    """A challenger waits so long after the last change that it saw."""
    renew: float = 10.0
    """A leader that could not renew for so long stops acting."""
    retry: float = 2.0
    """Between two renewals, and between two looks of a challenger."""
    margin: float = 1.0
    """A write under way is given up so long before the lease ends."""

    def acting_until(self, renewed_at: float) -> float:
        """Until when a leader may begin a write."""
        return renewed_at + self.renew

    def ends_at(self, renewed_at: float) -> float:
        """By when its last write must have ended."""
        return renewed_at + self.lease - self.margin


def terms(lease_seconds: float) -> Terms:
    """Terms in the usual proportions for a lease of so many seconds."""
    return Terms(lease=lease_seconds, renew=lease_seconds * 2 / 3, retry=lease_seconds / 7.5, margin=lease_seconds / 15)


@dataclass(frozen=True, slots=True)
class Record:
    """What the Lease holds."""

    holder: str
    lease_seconds: float
    renewed: str = ""
    acquired: str = ""
    transitions: int = 0
    version: str = ""
    """The object's resourceVersion: a write is made only to exactly this one."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A record, and since when it has been exactly that."""

    record: Record | None
    since: float


class Move(Enum):
    """What to do about the Lease."""

    HOLD = "hold"
    """Write our name into it."""
    WAIT = "wait"


def sighted(before: Sighting | None, record: Record | None, now: float) -> Sighting:
    """The sighting after another look: its time goes on as long as nobody writes."""
    if before is not None and before.record == record:
        return before
    return Sighting(record, now)


def move(me: str, sighting: Sighting, now: float) -> Move:
    """What `me` does. Somebody else's Lease is taken when it is free, or was not renewed in its time."""
    record = sighting.record
    if record is None or not record.holder or record.holder == me or same_pod(me, record.holder):
        return Move.HOLD
    return Move.HOLD if now - sighting.since >= record.lease_seconds else Move.WAIT


def identity(pod: str, pod_uid: str, unique: str) -> str:
    """The name of one process. `unique` differs with each start; `pod_uid` is empty outside of a pod."""
    return "/".join((pod, pod_uid, unique))


def same_pod(me: str, holder: str) -> bool:
    """Whether the holder was an earlier process of this very pod: it is dead, since a pod runs one at a time."""
    mine, theirs = me.split("/"), holder.split("/")
    return len(mine) == len(theirs) == 3 and bool(mine[1]) and mine[:2] == theirs[:2]


def read(body: Json) -> Record:
    """The record in the API's JSON; what somebody emptied counts as free."""
    spec: Json = body.get("spec") or {}
    return Record(
        holder=spec.get("holderIdentity") or "",
        lease_seconds=float(spec.get("leaseDurationSeconds") or 0),
        renewed=spec.get("renewTime") or "",
        acquired=spec.get("acquireTime") or "",
        transitions=int(spec.get("leaseTransitions") or 0),
        version=body["metadata"]["resourceVersion"],
    )


def held(me: str, before: Record | None, terms: Terms, at: datetime) -> Json:
    """The spec that says that `me` holds it."""
    stamp = at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    renewal = before is not None and before.holder == me
    turns = 0 if before is None else before.transitions + (not renewal)
    return {
        "holderIdentity": me,
        "leaseDurationSeconds": math.ceil(terms.lease),
        "acquireTime": before.acquired if before is not None and renewal and before.acquired else stamp,
        "renewTime": stamp,
        "leaseTransitions": turns,
    }


def created(namespace: str, name: str, spec: Json) -> Json:
    """A new Lease."""
    labels = {names.Label.NAME: "backstay", names.Label.COMPONENT: "operator"}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec}


def patch(record: Record, spec: Json) -> Json:
    """The merge patch that changes exactly the Lease that was read; another one is refused with a conflict."""
    return {"metadata": {"resourceVersion": record.version}, "spec": spec}


FREE: Json = {"holderIdentity": "", "leaseDurationSeconds": 1}
"""The spec of a Lease that was given back: the next one takes it at once."""
