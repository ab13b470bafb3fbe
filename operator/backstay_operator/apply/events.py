"""Events for people, in the API of events.k8s.io. Each has a name made of its id, so that it is told once."""

import hashlib
from datetime import datetime
from typing import Any

from backstay_contract import names

from backstay_operator import kinds
from backstay_operator.client import ApiError, Client
from backstay_operator.resource import Resource
from backstay_operator.rollout.decision import Event

Json = dict[str, Any]
MAX_NOTE = 1024
"""Characters of a note; the API server refuses more."""
REPORTER = f"{names.GROUP}/operator"


def body(resource: Resource, event: Event, now: datetime, instance: str) -> Json:
    """The event as JSON. Pure."""
    owner = resource.owner
    note = event.message if len(event.message) <= MAX_NOTE else event.message[: MAX_NOTE - 1] + "…"
    unique = hashlib.sha256(f"{owner.uid}/{event.id}".encode()).hexdigest()[:16]
    return {
        "apiVersion": kinds.EVENT.api_version,
        "kind": kinds.EVENT.name,
        "metadata": {"name": f"{owner.name}.{unique}", "namespace": owner.namespace},
        "regarding": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": owner.namespace,
            "name": owner.name,
            "uid": owner.uid,
        },
        "reason": str(event.reason),
        "note": note,
        "type": "Warning" if event.warning else "Normal",
        "action": "Reconcile",
        "eventTime": now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "reportingController": REPORTER,
        "reportingInstance": instance[:128],
    }


async def tell(client: Client, resource: Resource, event: Event, now: datetime, instance: str) -> bool:
    """Writes the event; False if it was told before, also by an operator that was killed since."""
    try:
        await client.create(kinds.EVENT, body(resource, event, now, instance))
    except ApiError as error:
        if error.status == 409:
            return False
        raise
    return True
