"""The last flip as text: the Service's annotation that is written in the same patch as its selector."""

import json
from datetime import datetime

from backstay_contract.metric import MetricName
from backstay_contract.status import Colour

from backstay_operator.rollout.observation import FlipRecord


def write(record: FlipRecord) -> str:
    """One line of JSON; fields at their defaults are left out."""
    body: dict[str, object] = {
        "to": record.to,
        "attempt": record.attempt,
        "reason": record.reason,
        "at": record.at.isoformat(),
    }
    if record.message:
        body["message"] = record.message
    if record.metric is not None:
        body["metric"] = record.metric
    if record.observed is not None:
        body["observed"] = record.observed
    if record.limit is not None:
        body["limit"] = record.limit
    if record.rejects:
        body["rejects"] = True
    if record.degraded:
        body["degraded"] = True
    if record.then:
        body["then"] = record.then
    return json.dumps(body, ensure_ascii=False, allow_nan=False)


def read(text: str) -> FlipRecord | None:
    """The record in an annotation, or None where it is not one: somebody may have edited it."""
    try:
        body = json.loads(text)
        at = datetime.fromisoformat(body["at"])
        if at.tzinfo is None:
            return None
        return FlipRecord(
            to=Colour(body["to"]),
            attempt=str(body["attempt"]),
            reason=str(body["reason"]),
            at=at,
            message=str(body.get("message", "")),
            metric=MetricName(body["metric"]) if "metric" in body else None,
            observed=float(body["observed"]) if "observed" in body else None,
            limit=float(body["limit"]) if "limit" in body else None,
            rejects=body.get("rejects") is True,
            degraded=body.get("degraded") is True,
            then=str(body.get("then", "")),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
