"""How a notice is written for the one who receives it. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from backstay_contract import names

Json = dict[str, Any]

EVENT_TYPE = "dev.backstay.modeldeployment"
"""Type of a CloudEvent, followed by a dot and the reason."""
FACTS = {
    "version": "version",
    "revision": "revision",
    "activeRevision": "active",
    "previousRevision": "previous",
    "metric": "metric",
    "observed": "observed",
    "limit": "limit",
    "n": "n",
    "k": "k",
    "eValue": "log10 e-value",
}
"""Fields that a message for people shows, and what they are called there."""


class Format(StrEnum):
    """What a sink understands."""

    CLOUD_EVENTS = "CloudEvents"
    SLACK = "Slack"
    WEBHOOK = "Webhook"


class Post(NamedTuple):
    """The request."""

    headers: Mapping[str, str]
    body: Json


def write(form: Format, data: Json) -> Post:
    """The request that tells it. Its Idempotency-Key is the same each time it is tried again."""
    headers = {"Idempotency-Key": data["id"]}
    if form is Format.CLOUD_EVENTS:
        return Post(headers | {"Content-Type": "application/cloudevents+json; charset=utf-8"}, _cloud_event(data))
    headers["Content-Type"] = "application/json"
    return Post(headers, _slack(data) if form is Format.SLACK else data)


def _cloud_event(data: Json) -> Json:
    """CloudEvents 1.0 in structured mode; id and source together name the event, whoever sends it."""
    where = f"/apis/{names.API_VERSION}/namespaces/{data['namespace']}/{names.PLURAL}/{data['name']}"
    return {
        "specversion": "1.0",
        "id": data["id"],
        "source": where,
        "type": f"{EVENT_TYPE}.{data['reason'].lower()}",
        "subject": f"{data['namespace']}/{data['name']}",
        "time": data["at"],
        "datacontenttype": "application/json",
        "data": data,
    }


def _slack(data: Json) -> Json:
    mark = ":warning:" if data["warning"] else ":information_source:"
    head = f"{mark} *{_plain(data['namespace'])}/{_plain(data['name'])}* {_plain(data['reason'])}"
    facts = [f"{called} `{_plain(_short(data[key]))}`" for key, called in FACTS.items() if data.get(key) is not None]
    return {"text": "\n".join([head, _plain(data["message"]), " · ".join(facts)]).rstrip()}


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _plain(text: str) -> str:
    """Slack's three special characters, and the one that would end a code span."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
