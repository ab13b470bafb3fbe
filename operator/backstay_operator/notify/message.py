"""A notice as JSON: what an Event carries and what is sent to others. Pure."""

import hashlib
from typing import Any

from backstay_contract import names
from backstay_contract.status import Notice

from backstay_operator.desired.common import Owner

Json = dict[str, Any]


def unique(owner: Owner, notice_id: str) -> str:
    """The notice's id for the world: the same whichever operator tells it, another for each resource and transition."""
    return hashlib.sha256(f"{owner.uid}/{notice_id}".encode()).hexdigest()[:16]


def data(owner: Owner, notice: Notice) -> Json:
    """Everything there is to know about it."""
    body = notice.to_json()
    numbers = body.pop("numbers", {})
    return {
        **body,
        "id": unique(owner, notice.id),
        "transition": notice.id,
        "kind": names.KIND,
        "namespace": owner.namespace,
        "name": owner.name,
        "uid": owner.uid,
        **numbers,
    }
