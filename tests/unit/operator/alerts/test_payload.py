import contextlib
import json
from typing import Any

import pytest
from backstay_operator.alerts import payload
from backstay_operator.alerts.payload import MAX_ALERTS, About, PayloadError, parse
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.operator.alerts.build import DIGEST, alert, body


def test_an_alert_says_whom_it_is_about_and_why() -> None:
    (one,) = parse(body(alert()))
    assert payload.about(one) == About("prod", "chat", DIGEST)
    firing = payload.firing(one, DIGEST)
    assert (firing.fingerprint, firing.name, firing.message) == ("f00d", "ModelSlow", "P99 is above 500 ms")
    assert firing.since.isoformat() == "2026-01-01T12:00:00.123000+00:00"


def test_a_digest_counts_with_and_without_its_prefix() -> None:
    (one,) = parse(body(alert(digest="ab" * 32)))
    assert payload.about(one) == About("prod", "chat", DIGEST)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"namespace": None}, "no label namespace"),
        ({"modeldeployment": ""}, "no label modeldeployment"),
        ({"digest": None}, "no label digest"),
        ({"digest": "1.2.0"}, "label digest is not a digest"),
    ],
)
def test_an_alert_without_the_labels_is_about_nobody_here(labels: dict[str, Any], said: str) -> None:
    (one,) = parse(body(alert(**labels)))
    assert payload.about(one) == said


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (b"", "the body"),
        (b"[1", "the body"),
        (b"null", "the body"),
        (b"\xff\xfe", "the body"),
        (body(version="3"), "version"),
        (body(alerts="none"), "alerts"),
        (body(alert(status="pending")), "alerts.0.status"),
        (body(alert(fingerprint="../../x")), "alerts.0.fingerprint"),
        (body(alert() | {"startsAt": "yesterday"}), "alerts.0.startsAt"),
        (body(alert() | {"startsAt": "2026-01-01T12:00:00"}), "alerts.0.startsAt"),
        (body(alert() | {"labels": {"a": 1}}), "alerts.0.labels.a"),
        (body(alert(long="x" * 5000)), "alerts.0.labels.long"),
        (body(*[alert(fingerprint=str(number)) for number in range(MAX_ALERTS + 1)]), "alerts"),
    ],
)
def test_what_alertmanager_does_not_send_is_refused_with_the_field(given: bytes, field: str) -> None:
    with pytest.raises(PayloadError) as error:
        parse(given)
    assert str(error.value).startswith(f"{field}: ")


@given(st.recursive(st.none() | st.integers() | st.text(), lambda of: st.lists(of) | st.dictionaries(st.text(), of)))
def test_any_other_json_is_refused_or_read_and_never_an_error(given: Any) -> None:
    for text in (json.dumps(given), json.dumps({"version": "4", "alerts": given})):
        with contextlib.suppress(PayloadError):
            assert isinstance(parse(text.encode()), tuple)
