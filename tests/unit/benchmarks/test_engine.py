"""What the engine's benchmark makes of what its clients saw."""

import pytest

from benchmarks.engine import __main__ as bench
from benchmarks.engine.client import Seen, Target, prompts, summary
from benchmarks.engine.turns import timed


def seen(first: float, last: float, tokens: int = 11, error: str | None = None) -> Seen:
    return Seen(() if error else (first, last), last, tokens, error)


def test_rates_are_a_turns_median_and_times_are_of_all_requests_together() -> None:
    found = summary([([seen(0.1, 1.1)], 2.0), ([seen(0.2, 1.2)], 1.0), ([seen(0.3, 2.3)], 4.0)])
    assert found["tokens/s"] == 5.5
    assert (found["ttft_p50"], found["ttft_p99"], found["tpot_p50"]) == (0.2, 0.3, 0.1)
    assert (found["turns"], found["failed"], found["goodput"]) == (3, 0, 0.5)


def test_a_failed_request_counts_as_failed_and_its_tokens_do_not_count() -> None:
    found = summary([([seen(0.1, 1.1), seen(0.0, 9.0, error="503")], 1.0)])
    assert (found["failed"], found["tokens/s"]) == (1, 11.0)
    assert summary([([seen(0.0, 9.0, error="503")], 1.0)]) == {"failed": 1}


def test_no_two_prompts_of_a_run_begin_alike() -> None:
    beginnings = {text.split(":")[0] for turn in range(5) for text in prompts(16, turn, (40, 50))}
    assert len(beginnings) == 5 * 16


def test_the_first_turn_is_made_however_late_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(timed(3, end=0.0)) == [0]
    assert "1 of 3 turns were made" in capsys.readouterr().err
    assert list(timed(3, end=float("inf"))) == [0, 1, 2]


def test_the_table_has_a_line_for_each_server_and_number_of_requests() -> None:
    lines = [{"server": name, "concurrent": 4, "tokens/s": 1.5} for name in ("ours", "theirs")]
    shown = bench.table({"threads": 2, "bytes_per_second": 2e9, "lines": lines}).splitlines()
    assert shown[0].startswith("2 threads")
    assert shown[2].split() == ["ours", "4", "1.5"]
    assert len(shown) == 4


def test_servers_are_told_apart_from_others_by_how_their_names_begin() -> None:
    assert list(bench.servers(2, ["backstay-int", "vllm"])) == ["backstay-int8", "vllm"]
    assert Target("a", "http://a", "m").asks == {"ignore_eos": True}
