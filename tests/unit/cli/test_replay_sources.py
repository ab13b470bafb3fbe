"""Where backstay judge reads a time from: recordings and a Prometheus. What is no scrape is an error, no verdict."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from backstay_cli.errors import CliError, Exit
from backstay_cli.replay import prometheus, recording
from backstay_cli.replay.scrapes import Scrape
from backstay_contract.names import RuntimeMetric
from backstay_judge import COUNTED

from .recorded import (
    BAD,
    RESOURCE,
    record,
    run,
    scrapes,
)


@pytest.fixture
def resource(tmp_path: Path) -> Path:
    path = tmp_path / "chat.yaml"
    path.write_text(RESOURCE)
    return path


# --- recordings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "line 2"),
        ("[1]", "it is no JSON object"),
        ('{"pod": "a", "metrics": ""}', "at: None is no time"),
        ('{"at": 1, "metrics": ""}', "pod: None is no name"),
        ('{"at": 1, "pod": "a"}', "neither metrics"),
        (f'{{"at": 1, "pod": "a", "metrics": "{RuntimeMetric.JUDGED}{{broken 7"}}', "line 2"),
    ],
)
def test_a_recording_with_a_bad_line_is_refused_with_its_number(tmp_path: Path, line: str, said: str) -> None:
    path = record(tmp_path / "soak.jsonl", [], pods="a")
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(CliError) as error:
        recording.read(path)
    assert (error.value.code, said in str(error.value)) == (Exit.REFUSED, True)


def test_a_recording_that_is_not_there_or_empty_says_so(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="No such file"):
        recording.read(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(CliError, match="has no scrapes"):
        recording.read(tmp_path / "empty.jsonl")


# --- Prometheus ---------------------------------------------------------------------------------------------------


class Asked:
    """Answers as a Prometheus that scraped these."""

    def __init__(self, found: Sequence[Scrape]) -> None:
        self._found = found
        self.queries: list[dict[str, str]] = []

    def request(self, method: str, url: str, *, fields: dict[str, str], **_: Any) -> Any:
        assert (method, url) == ("POST", "http://prometheus:9090/api/v1/query")
        self.queries.append(fields)
        wanted = [name for name in (*COUNTED, "up") if name in fields["query"].split('"')[1].split("|")]
        series: dict[str, dict[str, Any]] = {}
        for scrape in self._found:
            for sample in scrape.samples:
                if sample.name in wanted:
                    labels = {**sample.labels, "__name__": sample.name}
                    one = series.setdefault(json.dumps(labels), {"metric": labels, "values": []})
                    one["values"].append([scrape.at, str(sample.value)])
        body = {"status": "success", "data": {"resultType": "matrix", "result": list(series.values())}}
        return Answered(200, json.dumps(body).encode())


class Answered:
    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    def read(self, most: int) -> bytes:
        return self._body[:most]


def test_a_prometheus_is_asked_for_the_raw_points_of_the_digests_pods(
    monkeypatch: pytest.MonkeyPatch, resource: Path
) -> None:
    asked = Asked(scrapes(BAD))
    monkeypatch.setattr("urllib3.PoolManager", lambda **_: asked)
    found = run(
        "--from", "http://prometheus:9090/", "--baselines", resource, "-n", "prod",
        "--start", "2026-01-01T12:00:00Z", "--end", "2026-01-01T12:00:10Z",
    )  # fmt: skip
    assert found.exit_code == Exit.BREACH
    assert found.stdout.startswith("Breach after 2 s")
    own, beside = (fields["query"] for fields in asked.queries)
    assert f'digest=~"(sha256:)?{"9f" * 32}"' in own
    assert 'pod=~"a|b"' in beside
    assert all('namespace="prod"' in query and query.endswith("[10s]") for query in (own, beside))


def test_a_prometheus_without_such_a_digest_says_so(monkeypatch: pytest.MonkeyPatch, resource: Path) -> None:
    monkeypatch.setattr("urllib3.PoolManager", lambda **_: Asked([]))
    found = run("--from", "http://prometheus:9090", "--baselines", resource, "--start", "-10m")
    assert found.exit_code == Exit.NOT_FOUND
    assert "no series of digest" in found.stderr


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, b"no", Exit.FORBIDDEN),
        (503, b"no", Exit.UNREACHABLE),
        (200, b"<html>", Exit.REFUSED),
        (200, b"[]", Exit.REFUSED),
        (200, b'{"status": "error", "error": "too many samples"}', Exit.REFUSED),
        (200, b'{"status": "success", "data": {"resultType": "vector", "result": []}}', Exit.REFUSED),
        (
            200,
            b'{"status": "success", "warnings": ["x"], "data": {"resultType": "matrix", "result": []}}',
            Exit.REFUSED,
        ),
        (200, b'{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}}]}}', Exit.REFUSED),
    ],
)
def test_what_is_no_whole_answer_is_an_error_and_no_verdict(status: int, body: bytes, code: Exit) -> None:
    with pytest.raises(CliError) as error:
        prometheus.parse(status, body, "http://prometheus:9090")
    assert error.value.code == code
