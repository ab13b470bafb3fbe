"""The process: exit code, termination message, and log."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from backstay_contract import termination
from backstay_contract.names import Env
from backstay_contract.termination import GaveUp
from backstay_runtime.pull import main
from backstay_runtime.pull.log import line
from backstay_runtime.pull.progress import Counts, Progress, report
from hypothesis import given
from hypothesis import strategies as st

from .fakes import Lines


def env(tmp_path: Path, **changes: str) -> dict[str, str]:
    return {
        Env.MODEL_URI: "s3://models/m/1",
        Env.MODEL_DIGEST: "ab" * 32,
        Env.STORAGE_ENDPOINT: "http://127.0.0.1:9",
        Env.MODELS_FOLDER: str(tmp_path / "models"),
        Env.TERMINATION_LOG: str(tmp_path / "termination"),
    } | changes


@pytest.mark.parametrize(
    ("changes", "reason", "code"),
    [
        ({}, GaveUp.ENDPOINT_REFUSED, 14),
        ({Env.STORAGE_ENDPOINT: "http://169.254.169.254"}, GaveUp.ENDPOINT_REFUSED, 14),
        ({Env.STORAGE_ENDPOINT: "file:///etc"}, GaveUp.ENDPOINT_REFUSED, 14),
        ({Env.MODEL_DIGEST: "v1"}, GaveUp.SETTINGS_INVALID, 2),
        ({Env.STORAGE_CREDENTIALS: "/nowhere"}, GaveUp.CREDENTIALS_REJECTED, 12),
    ],
)
def test_giving_up_leaves_a_code_and_a_termination_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str], reason: GaveUp, code: int
) -> None:
    assert main.run(env(tmp_path, **changes)) == code
    said = termination.read((tmp_path / "termination").read_text())
    assert said is not None
    assert said.reason is reason
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["level"], last["reason"], last["exit_code"]) == ("error", reason, code)


def test_a_termination_log_that_cannot_be_written_does_not_hide_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(env(tmp_path, **{Env.TERMINATION_LOG: "/nowhere/log"})) == 14
    assert "EndpointRefused" in capsys.readouterr().out


def test_a_defect_is_an_internal_error_with_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("in a test")

    monkeypatch.setattr(main, "pull", broken)
    assert main.run(env(tmp_path)) == 1
    said = termination.read((tmp_path / "termination").read_text())
    assert said is not None
    assert said.message == "ZeroDivisionError: in a test"
    assert "Traceback" in capsys.readouterr().out


def test_help_names_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--help"]) == 0
    text = capsys.readouterr().out
    used = [Env.MODEL_URI, Env.MODEL_DIGEST, Env.STORAGE_ENDPOINT, Env.STORAGE_REGION, Env.STORAGE_CREDENTIALS]
    used += [Env.MODELS_FOLDER, Env.HARDWARE_PROFILE, Env.TERMINATION_LOG]
    assert [name for name in used if name not in text] == []


def test_help_names_every_exit_code_that_a_pull_has(capsys: pytest.CaptureFixture[str]) -> None:
    main.main(["-h"])
    text = capsys.readouterr().out
    elsewhere = {GaveUp.MODEL_INVALID, GaveUp.OUT_OF_MEMORY}
    codes = [code for reason, code in termination.EXIT_CODES.items() if reason not in elsewhere]
    assert [code for code in codes if f"{code} " not in text] == []


def test_an_unknown_argument_is_wrong_usage() -> None:
    assert main.main(["--fast"]) == 2


def test_a_log_line_is_one_json_object_without_empty_fields() -> None:
    text = line("pulling", datetime(2026, 1, 2, tzinfo=UTC), bytes=3, path=None, note="a\nb")
    assert json.loads(text) == {
        "at": "2026-01-02T00:00:00.000+00:00",
        "level": "info",
        "message": "pulling",
        "bytes": 3,
        "note": "a\nb",
    }
    assert "\n" not in text


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**12), st.floats(0, 1e6))
def test_progress_never_passes_the_total_and_time_left_is_none_without_a_rate(
    total: int, resumed: int, fetched: int, seconds: float
) -> None:
    said = report(Counts(total, resumed, fetched), seconds)
    assert said.bytes_done <= total
    assert (said.seconds_left is None) == (fetched == 0 or seconds == 0)
    assert said.seconds_left is None or said.seconds_left >= 0


def test_the_rate_is_of_this_try_only() -> None:
    said = report(Counts(total=100_000_000, resumed=50_000_000, fetched=20_000_000), 4.0)
    assert (said.bytes_done, said.mb_per_second, said.seconds_left) == (70_000_000, 5.0, 6.0)


def test_a_running_pull_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backstay_runtime.pull.progress.EVERY_SECONDS", 0.01)
    log, now = Lines(), iter(range(10**6))
    with Progress(log, clock=lambda: float(next(now))) as progress:
        progress.expect(total=100, resumed=40)
        progress.fetched(10)
        while not log.said:
            pass
    level, message, fields = log.said[-1]
    assert (level, message, fields["bytes_total"]) == ("info", "pulling", 100)
