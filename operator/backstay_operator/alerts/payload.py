"""Alertmanager's webhook, version 4, read strictly where the operator depends on it. Pure.

https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

from typing import Annotated, Literal, NamedTuple

from backstay_contract import digest, names
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from backstay_operator.rollout.observation import FiringAlert

MAX_ALERTS = 500
MAX_LABELS = 64
MAX_MESSAGE = 512

Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Text = Annotated[str, StringConstraints(max_length=4096)]


class PayloadError(Exception):
    """The request is not what Alertmanager sends; the message names the field."""


class Reported(BaseModel):
    """One alert. Fields that a later Alertmanager adds are left aside."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    status: Literal["firing", "resolved"]
    fingerprint: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z]{1,64}$")]
    labels: Annotated[dict[Name, Text], Field(max_length=MAX_LABELS)]
    annotations: Annotated[dict[Name, Text], Field(max_length=MAX_LABELS)] = {}
    startsAt: AwareDatetime  # noqa: N815 - Alertmanager's name


class _Payload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    version: Literal["4"]
    alerts: Annotated[tuple[Reported, ...], Field(max_length=MAX_ALERTS)]


class About(NamedTuple):
    """Whom an alert speaks of."""

    namespace: str
    name: str
    digest: str


def parse(body: bytes) -> tuple[Reported, ...]:
    """The alerts in a request's body. Raises PayloadError."""
    try:
        return _Payload.model_validate_json(body).alerts
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the body"
        raise PayloadError(f"{field}: {first['msg']}") from error


def about(alert: Reported) -> About | str:
    """Whom it is about, by its labels; or why it is about nobody here."""
    wanted = names.AlertLabel.NAMESPACE, names.AlertLabel.RESOURCE, names.AlertLabel.DIGEST
    missing = [label for label in wanted if not alert.labels.get(label)]
    if missing:
        return f"no label {missing[0]}"
    namespace, name, of_digest = (alert.labels[label] for label in wanted)
    try:
        return About(namespace, name, digest.normalise(of_digest))
    except ValueError:
        return f"label {names.AlertLabel.DIGEST} is not a digest"


def firing(alert: Reported, of_digest: str) -> FiringAlert:
    """The alert as the machine sees it."""
    said = alert.annotations.get("summary") or alert.annotations.get("description") or ""
    return FiringAlert(
        fingerprint=alert.fingerprint,
        name=alert.labels.get("alertname", alert.fingerprint)[:MAX_MESSAGE],
        digest=of_digest,
        message=said[:MAX_MESSAGE],
        since=alert.startsAt,
    )
