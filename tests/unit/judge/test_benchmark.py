"""The benchmark against simple rivals: its soaks and the rivals are what is said of them."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from backstay_contract.metric import MetricName
from backstay_judge import Limit
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.judge import __main__ as command
from benchmarks.judge import measure, policies, soaks
from benchmarks.judge.measure import Case, Cell
from benchmarks.judge.soaks import Soak, Trace, Window

P99, ERROR_RATE = MetricName.P99_LATENCY, MetricName.ERROR_RATE
LIMIT = Limit(P99, 100.0, 0.01)
FAST, SLOW = 1.0, 1e6
GOOD, BAD = [FAST] * 30, [SLOW] * 30


def soak(windows: Sequence[Window], limit: Limit = LIMIT) -> Soak:
    return Soak(windows, [GOOD] * len(windows), limit)


# --- the soaks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "beyond"), [(2.0, 0.01), (3.0, 0.034), (4.0, 0.072), (6.0, 0.17), (10.0, 0.377)])
@pytest.mark.parametrize("shared", [0.0, 0.3])
def test_simulated_latencies_are_beyond_the_limit_as_often_as_published(
    factor: float, beyond: float, shared: float
) -> None:
    rng = random.Random(f"latencies {factor} {shared}")
    found = [value for _ in range(100) for window in soaks.latencies(rng, 10, factor, shared) for value in window]
    limit = 2 * soaks.BASELINE_P99
    # 20,000 latencies; where windows share their load the mean of 2,000 windows has at most thrice the error.
    assert sum(value > limit for value in found) / len(found) == pytest.approx(beyond, abs=0.035 * beyond**0.5)


@pytest.mark.parametrize("clump", measure.CLUMPS)
@pytest.mark.parametrize("rate", [0.01, 0.2])
def test_errors_have_their_mean_rate_and_come_in_their_bursts(rate: float, clump: int) -> None:
    rng = random.Random(f"errors {rate} {clump}")
    kind = soaks.failing(30, rate, clump)
    found = [value for _ in range(200) for window in kind(rng).candidate for value in window]
    # 120,000 requests in bursts of up to 5: the error of the mean is below 0.0026 at 20 %, four of them are allowed.
    assert sum(found) / len(found) == pytest.approx(rate, abs=4 * (rate * clump / len(found)) ** 0.5)
    assert kind(rng).limit.allowed_fraction == 0.002


TRACE = Trace("steady", tuple(tuple(float(10 * window + index) for index in range(5)) for window in range(12)))


@given(st.randoms(use_true_random=False), st.floats(0.5, 10))
def test_a_recorded_soak_is_made_of_neighbouring_windows_of_the_trace(rng: random.Random, factor: float) -> None:
    found = soaks.recorded(TRACE, factor, TRACE)(rng)
    assert len(found.candidate) == len(found.baseline) == soaks.WINDOWS
    assert found.limit.value == pytest.approx(2 * TRACE.p99)
    starts = [round(window[0] / factor / 10) for window in found.candidate]
    for block in range(0, soaks.WINDOWS, soaks.BLOCK):
        part = starts[block : block + soaks.BLOCK]
        assert part == list(range(part[0], part[0] + len(part)))


def test_the_committed_traces_are_of_a_real_run_and_can_be_drawn_from() -> None:
    traces = soaks.read_traces()
    assert {"steady", "bursty"} < set(traces)
    for trace in traces.values():
        assert len(trace.windows) >= 2 * soaks.BLOCK
        assert sum(map(len, trace.windows)) >= 200
        assert all(value > 0 for window in trace.windows for value in window)


# --- the policies -------------------------------------------------------------------------------------------------


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
        ("Kayenta", [BAD] * 6, 5),
        ("Kayenta", [GOOD] * 20, None),
    ],
)
def test_each_policy_sends_back_when_it_says(policy: str, windows: list[Window], sent_back: int | None) -> None:
    assert policies.POLICIES[policy](soak(windows)) == sent_back


@pytest.mark.parametrize("policy", [name for name in policies.POLICIES if name != "Mann-Whitney"])
def test_each_policy_judges_errors_too(policy: str) -> None:
    limit = Limit(ERROR_RATE, 0.01, 0.01)
    failing, well = [[1.0] * 100] * 20, [[0.0] * 100] * 20
    assert policies.POLICIES[policy](Soak(failing, well, limit)) is not None
    assert policies.POLICIES[policy](Soak(well, well, limit)) is None


def test_mann_whitney_finds_a_difference_that_no_limit_forbids() -> None:
    pytest.importorskip("scipy", reason="the benchmark's own environment has it: uv sync --group bench")
    rng = random.Random("ranks")
    baseline = [[rng.gauss(50, 5) for _ in range(30)] for _ in range(5)]
    slower = [[value + 10 for value in window] for window in baseline]
    faster = [[value - 10 for value in window] for window in baseline]
    assert policies.mann_whitney(Soak(slower, baseline, LIMIT)) == 1
    assert policies.mann_whitney(Soak(faster, baseline, LIMIT)) is None


# --- what is told -------------------------------------------------------------------------------------------------


def cell(policy: str, model: str, sent_back: float, *, allowed: bool) -> Cell:
    return Cell(policy, "s", model, allowed, sent_back, 3.0, 90.0)


def cells(rival_false: float, rival_found: float) -> list[Cell]:
    """Backstay sends back 1 % of what is allowed and finds every 6x shift; so does each rival, but for one."""
    found = []
    for policy in policies.POLICIES:
        odd = policy == "three in a row"
        found += [
            cell(policy, "1x", rival_false if odd else 0.01, allowed=True),
            cell(policy, "6x", rival_found if odd else 1.0, allowed=False),
        ]
    return found


def test_a_rival_that_finds_as_much_with_fewer_false_alarms_is_told_as_a_loss() -> None:
    (lost,) = measure.losses(cells(0.0, 1.0), runs=5000)
    assert (lost.rival, lost.scenario) == ("three in a row", "s")
    assert "Backstay 1.0%" in lost.what


@pytest.mark.parametrize(
    ("rival_false", "rival_found", "runs"),
    [(0.0, 0.5, 5000), (0.02, 1.0, 5000), (0.008, 1.0, 5000), (0.0, 1.0, 200)],
    ids=["finds less", "alarms more", "by chance", "too few runs to tell"],
)
def test_a_rival_that_finds_less_or_alarms_as_often_is_none(rival_false: float, rival_found: float, runs: int) -> None:
    assert measure.losses(cells(rival_false, rival_found), runs) == []


def test_its_json_and_its_table_say_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(policies.POLICIES, "Mann-Whitney", policies.single_breach)  # needs no scipy
    arguments = ["--runs", "2", "--only", "5 requests a window, independent", "--seed", "7"]
    command.main([*arguments, "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    command.main(arguments)
    printed = capsys.readouterr().out
    assert len(document["cells"]) == len(measure.FACTORS) * len(policies.POLICIES)
    assert {found["policy"] for found in document["cells"]} == set(policies.POLICIES)
    assert command.table([Cell(**found) for found in document["cells"]]) in printed


def test_every_case_has_a_name_of_its_own(tmp_path: Path) -> None:
    steady, bursty = TRACE, Trace("bursty", TRACE.windows)
    found: list[Case] = list(measure.cases({"steady": steady, "bursty": bursty}))
    assert len({(case.scenario, case.model) for case in found}) == len(found)
    assert {case.allowed for case in found} == {True, False}
