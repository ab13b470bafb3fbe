"""The benchmark against simple rivals: its traces are the published ones, and the rivals do what they are said to."""

import importlib.util
import json
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "judge.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_the_judge", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


bench = load()
FAST, SLOW = 1.0, 1e6
GOOD, BAD = [FAST] * 30, [SLOW] * 30


@pytest.mark.parametrize(("factor", "beyond"), [(2.0, 0.01), (3.0, 0.034), (4.0, 0.072), (6.0, 0.17), (10.0, 0.377)])
@pytest.mark.parametrize("shared", [0.0, 0.3])
def test_its_latencies_are_beyond_the_limit_as_often_as_published(factor: float, beyond: float, shared: float) -> None:
    rng = random.Random(f"latencies {factor} {shared}")
    found = [value for _ in range(100) for window in bench.latencies(rng, 10, factor, shared) for value in window]
    # 20,000 latencies; where windows share their load the mean of 2,000 windows has at most thrice the error.
    assert sum(value > bench.LIMIT for value in found) / len(found) == pytest.approx(beyond, abs=0.035 * beyond**0.5)


@pytest.mark.parametrize(
    ("policy", "windows", "sent_back"),
    [
        ("single breach", [GOOD, BAD], 2),
        ("single breach", [GOOD, GOOD], None),
        ("three in a row", [BAD, BAD, GOOD, BAD, BAD, BAD], 6),
        ("three in a row", [BAD, BAD, GOOD] * 6, None),
        ("four failures", [BAD, GOOD, BAD, GOOD, BAD, GOOD, BAD], 7),
        ("four failures", [BAD] * 3 + [GOOD] * 17, None),
        ("minimum 1000", [BAD] * 40, 34),
        ("minimum 1000", [BAD] * 20, None),
        ("counts only", [BAD], 1),
        ("backstay", [BAD, BAD], 2),
        ("backstay", [BAD], None),
        ("backstay", [GOOD] * 20, None),
    ],
)
def test_each_policy_sends_back_when_it_says(policy: str, windows: list[list[float]], sent_back: int | None) -> None:
    assert bench.POLICIES[policy](windows, [GOOD] * len(windows)) == sent_back


def test_mann_whitney_finds_a_difference_that_no_limit_forbids() -> None:
    rng = random.Random("ranks")
    baseline = [[rng.gauss(100, 5) for _ in range(30)] for _ in range(5)]
    slower = [[value + 10 for value in window] for window in baseline]
    faster = [[value - 10 for value in window] for window in baseline]
    assert bench.mann_whitney(slower, baseline) == 1
    assert bench.mann_whitney(faster, baseline) is None


def test_its_json_and_its_table_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--runs", "2", "--requests", "5", "--seed", "7"]
    assert bench.main([*arguments, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert bench.main(arguments) == 0
    printed = capsys.readouterr().out
    assert len(document["cells"]) == 2 * len(bench.FACTORS) * len(bench.POLICIES)
    assert {cell["policy"] for cell in document["cells"]} == set(bench.POLICIES)
    assert printed.strip() == bench.table([bench.Cell(**cell) for cell in document["cells"]])
