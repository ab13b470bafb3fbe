"""Events for people, in the API of events.k8s.io. Each has a name made of its id, so that it is told once.

An Event carries its notice whole: what is sent to others comes from there (see notify.outbox).
"""

import json
from collections.abc import AsyncIterator
from typing import Any

from backstay_contract import names
from backstay_contract.names import Annotation, Label
from backstay_contract.status import Notice

from backstay_operator import kinds
from backstay_operator.client import ApiError, Client
from backstay_operator.desired.common import Owner
from backstay_operator.notify import message

Json = dict[str, Any]
REPORTER = f"{names.GROUP}/operator"


def name_of(owner: Owner, notice: Notice) -> str:
    """The name of the Event that tells the notice."""
    return f"{owner.name}.{message.unique(owner, notice.id)}"


def body(owner: Owner, notice: Notice, instance: str) -> Json:
    """The Event as JSON. Pure."""
    data = message.data(owner, notice)
    return {
        "apiVersion": kinds.EVENT.api_version,
        "kind": kinds.EVENT.name,
        "metadata": {
            "name": name_of(owner, notice),
            "namespace": owner.namespace,
            "labels": {Label.MANAGED_BY: names.MANAGED_BY, Label.RESOURCE: owner.name},
            "annotations": {Annotation.NOTICE: json.dumps(data, ensure_ascii=False)},
        },
        "regarding": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": owner.namespace,
            "name": owner.name,
            "uid": owner.uid,
        },
        "reason": notice.reason,
        "note": notice.message,
        "type": "Warning" if notice.warning else "Normal",
        "action": "Reconcile",
        "eventTime": notice.at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "reportingController": REPORTER,
        "reportingInstance": instance[:128],
    }


async def tell(client: Client, owner: Owner, notice: Notice, instance: str) -> Json | None:
    """Writes the Event; None if it was told before, also by an operator that was killed since."""
    try:
        return await client.create(kinds.EVENT, body(owner, notice, instance))
    except ApiError as error:
        if error.status == 409:
            return None
        raise


async def told(client: Client, namespaces: tuple[str, ...]) -> AsyncIterator[tuple[str, str]]:
    """Namespace and name of every Event of ours that the API server still has. `namespaces`: none for all."""
    for namespace in namespaces or (None,):
        async for page, _ in client.listed(kinds.EVENT, namespace, {Label.MANAGED_BY: names.MANAGED_BY}):
            for event in page:
                yield event["metadata"]["namespace"], event["metadata"]["name"]
