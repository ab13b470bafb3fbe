from typing import Any

import pytest
from backstay_operator.notify.formats import Format, write

DATA: dict[str, Any] = {
    "id": "0123456789abcdef",
    "namespace": "prod",
    "name": "chat",
    "reason": "Breach",
    "message": "p99 <is> beyond & above",
    "warning": True,
    "at": "2026-01-01T12:00:00Z",
    "version": "1.1.0",
    "metric": "p99LatencyMs",
    "observed": 0.376812,
    "limit": 200.0,
    "n": 50,
    "k": 19,
    "eValue": 3.51234,
}


@pytest.mark.parametrize("form", Format)
def test_every_format_has_the_same_key_each_time_it_is_written(form: Format) -> None:
    assert write(form, DATA) == write(form, dict(DATA))
    assert write(form, DATA).headers["Idempotency-Key"] == "0123456789abcdef"


def test_a_cloud_event_has_the_attributes_that_version_1_asks_for() -> None:
    headers, body = write(Format.CLOUD_EVENTS, DATA)
    assert headers["Content-Type"].startswith("application/cloudevents+json")
    assert body == {
        "specversion": "1.0",
        "id": "0123456789abcdef",
        "source": "/apis/backstay.dev/v1alpha1/namespaces/prod/modeldeployments/chat",
        "type": "dev.backstay.modeldeployment.breach",
        "subject": "prod/chat",
        "time": "2026-01-01T12:00:00Z",
        "datacontenttype": "application/json",
        "data": DATA,
    }


def test_a_webhook_gets_the_notice_as_it_is() -> None:
    assert write(Format.WEBHOOK, DATA).body == DATA


def test_slack_gets_a_text_with_the_numbers() -> None:
    (text,) = write(Format.SLACK, DATA).body.values()
    assert text.splitlines() == [
        ":warning: *prod/chat* Breach",
        "p99 &lt;is&gt; beyond &amp; above",
        "version `1.1.0` · metric `p99LatencyMs` · observed `0.3768` · limit `200` · n `50` · k `19` · "
        "log10 e-value `3.512`",
    ]


def test_slack_shows_no_empty_facts() -> None:
    bare = {key: DATA[key] for key in ("id", "namespace", "name", "reason", "message")} | {"warning": False}
    (text,) = write(Format.SLACK, bare).body.values()
    assert text == ":information_source: *prod/chat* Breach\np99 &lt;is&gt; beyond &amp; above"
