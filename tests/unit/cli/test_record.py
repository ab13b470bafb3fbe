"""backstay record: scrapes of pods that backstay judge reads again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import urllib3
from backstay_cli.commands import record as command
from backstay_cli.main import app
from backstay_cli.replay import recording
from typer.testing import CliRunner

TEXT = 'backstay_requests_finished_total{digest="d",outcome="ok"} 7\nprocess_start_time_seconds 1\nelse 3\n'
Answer = tuple[int, bytes] | Exception


class Pool:
    """Pods that answer by their URL."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self._answers = answers

    def request(self, _: str, url: str, **__: Any) -> Any:
        answer = self._answers[url]
        if isinstance(answer, Exception):
            raise answer
        return Answered(*answer)


class Answered:
    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    def read(self, most: int) -> bytes:
        return self._body[:most]


class Clock:
    """Time that passes only in sleep."""

    def __init__(self) -> None:
        self.now = 1_767_268_800.0

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Answer]], Clock]:
    def answering(answers: dict[str, Answer]) -> Clock:
        clock = Clock()
        monkeypatch.setattr("urllib3.PoolManager", lambda **_: Pool(answers))
        monkeypatch.setattr(command, "time", clock)
        return clock

    return answering


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["record", *map(str, arguments)])


def test_each_pod_is_scraped_at_each_interval_and_read_again(
    tmp_path: Path, pods: Callable[[dict[str, Answer]], Clock]
) -> None:
    pods({"http://a/metrics": (200, TEXT.encode()), "http://b/metrics": (200, TEXT.encode())})
    into = tmp_path / "soak.jsonl"
    found = run("a=http://a/metrics", "b=http://b/metrics", "--into", into, "--seconds", 6, "--interval", 2)
    assert found.exit_code == 0
    assert "8 scrapes of 2 pods, 0 failed" in found.stderr
    scrapes = recording.read(into)
    assert [scrape.at - scrapes.begin for scrape in scrapes.by_pod["a"]] == [0, 2, 4, 6]
    assert {sample.name for sample in scrapes.by_pod["b"][0].samples} == {
        "backstay_requests_finished_total",
        "process_start_time_seconds",
    }


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((503, b"loading"), "/metrics answered 503"),
        (urllib3.exceptions.ProtocolError("connection reset"), "ProtocolError: connection reset"),
        ((200, b"\xff"), "UnicodeDecodeError"),
    ],
)
def test_a_scrape_that_fails_is_recorded_as_that(
    tmp_path: Path, pods: Callable[[dict[str, Answer]], Clock], answer: Answer, problem: str
) -> None:
    pods({"http://a/metrics": answer})
    found = run("a=http://a/metrics", "--into", tmp_path / "soak.jsonl", "--seconds", 0)
    assert (found.exit_code, "1 failed" in found.stderr) == (0, True)
    (scrape,) = recording.read(tmp_path / "soak.jsonl").by_pod["a"]
    assert (problem in scrape.problem, scrape.samples) == (True, ())


def test_a_recording_is_never_overwritten(tmp_path: Path, pods: Callable[[dict[str, Answer]], Clock]) -> None:
    pods({})
    (tmp_path / "soak.jsonl").write_text("kept")
    assert run("a=http://a/metrics", "--into", tmp_path / "soak.jsonl").exit_code == 3
    assert (tmp_path / "soak.jsonl").read_text() == "kept"


def test_an_interrupted_recording_is_whole(
    tmp_path: Path, pods: Callable[[dict[str, Answer]], Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = pods({"http://a/metrics": (200, TEXT.encode())})

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(clock, "sleep", interrupt)
    found = run("a=http://a/metrics", "--into", tmp_path / "soak.jsonl")
    assert (found.exit_code, "interrupted" in found.stderr) == (0, True)
    assert len(recording.read(tmp_path / "soak.jsonl").by_pod["a"]) == 1


@pytest.mark.parametrize("target", ["a", "=http://a", "a=", "a=ftp://a"])
def test_a_pod_without_its_address_is_refused_with_an_example(tmp_path: Path, target: str) -> None:
    found = run(target, "--into", tmp_path / "soak.jsonl")
    assert found.exit_code == 2
    assert "write POD=URL" in found.stderr
