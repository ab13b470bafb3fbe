import json
from pathlib import Path
from typing import Any

import pytest
from backstay_contract.reasons import Reason
from backstay_operator.notify import sinks
from backstay_operator.notify.formats import Format
from backstay_operator.notify.sinks import Sink, SinkError


def sink(**fields: Any) -> dict[str, Any]:
    return {"name": "oncall", "format": "Slack", "urlFile": "/nowhere", **fields}


def test_the_configuration_is_read() -> None:
    (one,) = sinks.parse(json.dumps({"sinks": [sink(reasons=["Breach"], warningsOnly=True)]}))
    assert (one.name, one.format, one.reasons, one.warnings_only) == ("oncall", Format.SLACK, (Reason.BREACH,), True)
    assert sinks.parse("{}") == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sinks": [sink(format="Email")]}, "sinks.0.format"),
        ({"sinks": [sink(reasons=["Breached"])]}, "sinks.0.reasons.0"),
        ({"sinks": [sink(name="On Call")]}, "sinks.0.name"),
        ({"sinks": [sink(url="http://x")]}, "sinks.0.url"),
        ({"sinks": [{"name": "a"}]}, "sinks.0.format"),
        ({"sinks": [sink(), sink()]}, "two sinks are called 'oncall'"),
        ({"sinks": [sink(name=f"s{number}") for number in range(11)]}, "sinks"),
        ([], "the text"),
    ],
)
def test_a_wrong_configuration_is_refused_with_the_field(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        sinks.parse(json.dumps(given))


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({}, True),
        ({"warnings_only": True}, False),
        ({"reasons": (Reason.VERIFIED,)}, True),
        ({"reasons": (Reason.BREACH,)}, False),
    ],
)
def test_a_sink_gets_what_it_asks_for(filters: dict[str, Any], wanted: bool) -> None:
    one = Sink(name="a", format=Format.WEBHOOK, url_file=Path("x"), **filters)
    assert one.wants({"reason": "Verified", "warning": False}) is wanted


def test_the_url_is_read_each_time_so_that_a_changed_secret_counts_at_once(tmp_path: Path) -> None:
    file = tmp_path / "url"
    one = Sink(name="a", format=Format.WEBHOOK, url_file=file)
    for url in ("https://one.example/hook", "https://two.example/hook"):
        file.write_text(f"{url}\n")
        assert one.url() == url


@pytest.mark.parametrize("text", ["", "hooks.example/T0/secret", "ftp://secret", "https://a secret", b"\xff\xfe"])
def test_a_url_that_is_none_is_refused_without_showing_it(tmp_path: Path, text: Any) -> None:
    file = tmp_path / "url"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SinkError) as error:
        Sink(name="a", format=Format.WEBHOOK, url_file=file).url()
    assert "secret" not in str(error.value)


def test_a_secret_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="cannot be read"):
        Sink(name="a", format=Format.WEBHOOK, url_file=tmp_path / "none").url()
