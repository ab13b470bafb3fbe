"""backstay judge: a recorded time judged again, as the operator would have."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from backstay_cli.commands.judge import moment
from backstay_cli.errors import CliError, Exit
from backstay_cli.replay import baselines, plot, recording
from backstay_cli.replay.replay import Rules, decision, looks
from backstay_cli.replay.scrapes import GONE_SECONDS, Scrape, Scrapes, from_series
from backstay_contract import manifest as manifests
from backstay_contract.metric import MetricName
from hypothesis import given
from hypothesis import strategies as st

from .recorded import (
    BAD,
    BEGIN,
    DIGEST,
    GOOD,
    LIMIT,
    MANIFEST,
    P99,
    RESOURCE,
    SLOW_LATER,
    Counts,
    metrics,
    record,
    run,
    scrapes,
)


@pytest.fixture
def resource(tmp_path: Path) -> Path:
    path = tmp_path / "chat.yaml"
    path.write_text(RESOURCE)
    return path


# --- what is decided ----------------------------------------------------------------------------------------------


def test_a_good_time_passes_once_the_shortest_soak_is_over(tmp_path: Path, resource: Path) -> None:
    found = run("--from", record(tmp_path / "soak.jsonl", GOOD), "--baselines", resource)
    assert found.exit_code == 0
    assert found.stdout.startswith("Pass after 4 s, at 2026-01-01 12:00:04 UTC\n")
    assert "n=400 k=0" in found.stdout
    assert "log10 of the e-value of p99LatencyMs" in found.stdout


def test_a_bad_time_is_a_breach_at_the_look_that_shows_it(tmp_path: Path, resource: Path) -> None:
    found = run("--from", record(tmp_path / "soak.jsonl", BAD), "--baselines", resource)
    assert found.exit_code == 10
    assert found.stdout.startswith("Breach after 2 s")
    assert "20 of 20 requests above 840 ms" in found.stdout


def test_the_begin_is_where_counting_begins(tmp_path: Path, resource: Path) -> None:
    path = record(tmp_path / "soak.jsonl", SLOW_LATER)
    early, late = (
        json.loads(run("--from", path, "--baselines", resource, "-o", "json", "--min-seconds", 60, *more).stdout)
        for more in ((), ("--start", "-10s"))
    )
    assert early["decision"]["verdict"] == late["decision"]["verdict"] == "Breach"
    assert late["decision"]["metrics"][0]["n"] == late["decision"]["metrics"][0]["k"] / 0.8
    assert early["decision"]["metrics"][0]["n"] > 400


def test_too_few_requests_are_inconclusive_and_say_what_a_pass_needs(tmp_path: Path, resource: Path) -> None:
    found = run("--from", record(tmp_path / "soak.jsonl", [(1, 0)] * 20), "--baselines", resource)
    assert found.exit_code == 11
    assert "a Pass needs 382 requests" in found.stdout


@pytest.mark.case("T41")
@pytest.mark.parametrize(
    "spoilt",
    [
        lambda at, pod: recording.line(at, pod, problem="HTTP 401"),
        lambda at, pod: recording.line(at, pod, metrics=metrics(1, 0).replace("} 1\n", "} NaN\n")),
        lambda at, pod: recording.line(at, pod, metrics=metrics(1, 0, digest="sha256:" + "00" * 32)),
        lambda at, pod: recording.line(at, pod, metrics=""),
    ],
)
def test_a_time_in_which_nothing_could_be_read_is_no_data(
    tmp_path: Path, resource: Path, spoilt: Callable[[float, str], str]
) -> None:
    path = record(tmp_path / "soak.jsonl", GOOD[:5])
    with path.open("a") as file:
        file.writelines(spoilt(BEGIN + 6 + second, pod) for second in range(5) for pod in "ab")
    found = run("--from", path, "--baselines", resource, "--start", "-4s")
    assert found.exit_code == 12


def test_what_is_seen_in_json_is_every_look_with_its_numbers(tmp_path: Path, resource: Path) -> None:
    found = run("--from", record(tmp_path / "soak.jsonl", BAD), "--baselines", resource, "-o", "json")
    said = json.loads(found.stdout)
    assert said["rules"] == {
        "digest": DIGEST,
        "limits": {**dict.fromkeys(metric.value for metric in MetricName), "p99LatencyMs": LIMIT},
        "alpha": 0.01,
        "alphaPass": 0.05,
        "intervalSeconds": 1.0,
        "minSeconds": 4,
    }
    assert len(said["looks"]) == 11
    rising = [look["metrics"]["p99LatencyMs"]["eValue"] for look in said["looks"]]
    assert rising == sorted(rising)
    assert (said["decision"]["verdict"], said["decision"]["seconds"]) == ("Breach", 2.0)


steps = st.lists(
    st.integers(0, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=3, max_size=25
)


def decided(found: Scrapes, interval: float = 1.0) -> tuple[Any, ...]:
    rules = Rules(limits={P99: LIMIT}, digest=DIGEST, interval_seconds=interval, min_seconds=3)
    all_looks = list(looks(found, rules, found.begin, found.end))
    one = decision(all_looks, rules)
    return one.kind, one.seconds, [(v.n, v.k, v.e_value) for v in one.verdict.metrics]


@given(steps)
def test_a_recording_and_a_prometheus_that_saw_the_same_lead_to_the_same_decision(given_steps: Counts) -> None:
    seen = scrapes(given_steps)
    series: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    for scrape in seen:
        for sample in scrape.samples:
            labels = tuple(sorted({**sample.labels, "__name__": sample.name}.items()))
            series.setdefault(labels, []).append((sample.timestamp, sample.value))
    from_prometheus = from_series((dict(labels), points) for labels, points in series.items())
    assert decided(Scrapes.of(seen)) == decided(from_prometheus)


@given(steps, st.randoms(use_true_random=False))
def test_the_order_of_a_recordings_lines_does_not_matter(given_steps: Counts, rng: Any) -> None:
    seen = scrapes(given_steps)
    shuffled = list(seen)
    rng.shuffle(shuffled)
    assert decided(Scrapes.of(seen)) == decided(Scrapes.of(shuffled))


def test_a_pod_that_is_gone_for_long_is_not_waited_for_and_one_that_is_gone_shortly_is() -> None:
    seen = Scrapes.of([Scrape(BEGIN, "a"), Scrape(BEGIN + GONE_SECONDS, "b")])
    assert [scrape.pod for scrape in seen.at(BEGIN + GONE_SECONDS)] == ["a", "b"]
    assert [scrape.pod for scrape in seen.at(BEGIN + GONE_SECONDS + 1)] == ["b"]
    assert seen.at(BEGIN - 1) == ()


# --- what it is judged by -----------------------------------------------------------------------------------------


def test_a_manifest_gives_limits_and_the_digest_that_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(manifests.dump(MANIFEST))
    found = baselines.read([path])
    assert found.limits == {P99: LIMIT}
    assert found.digest == manifests.digest_of(manifests.dump(MANIFEST))


def test_a_later_file_overrides_an_earlier_one_metric_by_metric(tmp_path: Path, resource: Path) -> None:
    path = tmp_path / "more.yaml"
    path.write_text("p99LatencyMs: {value: 100}\nerrorRate: {value: 0.01}\n")
    found = baselines.read([resource, path])
    assert found.limits == {P99: 200.0, MetricName.ERROR_RATE: 0.02}
    assert (found.digest, found.soak is not None) == (DIGEST, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "write a manifest, a ModelDeployment, or baselines"),
        ("p99LatencyMs: {value: -1}", "p99LatencyMs.value"),
        ("p98LatencyMs: {value: 1}", "p98LatencyMs"),
        ("a: [", "is neither JSON nor YAML"),
        ('{"files": []}', "manifest.json: "),
        ("kind: ModelDeployment\nspec: {}", "model"),
    ],
)
def test_a_file_of_baselines_that_is_none_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "baselines.yaml"
    path.write_text(text)
    with pytest.raises(CliError) as error:
        baselines.read([path])
    assert (error.value.code, said in str(error.value), str(path) in str(error.value)) == (Exit.REFUSED, True, True)


def test_baselines_without_any_limit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    path.write_text("baselines: {}")
    found = run("--from", record(tmp_path / "soak.jsonl", GOOD), "--baselines", path)
    assert found.exit_code == Exit.REFUSED
    assert "nothing to judge" in found.stderr


def test_without_a_digest_the_only_one_of_the_recording_is_judged_and_two_are_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "alone.yaml"
    path.write_text("p99LatencyMs: {value: 420}")
    recorded = record(tmp_path / "soak.jsonl", GOOD)
    assert run("--from", recorded, "--baselines", path, "--min-seconds", 4).exit_code == 0
    with recorded.open("a") as file:
        file.write(recording.line(BEGIN, "c", metrics=metrics(1, 0, digest="sha256:" + "00" * 32)))
    found = run("--from", recorded, "--baselines", path)
    assert found.exit_code == Exit.USAGE
    assert "2 digests" in found.stderr
    assert "--sha256" in found.stderr


# --- times and the plot -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-90s", BEGIN - 90),
        ("-1.5h", BEGIN - 5400),
        ("2026-01-01T12:00:00Z", BEGIN),
        ("2026-01-01T13:00:00+01:00", BEGIN),
    ],
)
def test_a_time_is_a_moment_or_so_long_ago(text: str, expected: float) -> None:
    assert moment("--start", text, BEGIN) == expected


@pytest.mark.parametrize("text", ["yesterday", "-5", "5m", ""])
def test_another_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(CliError, match="write a time as"):
        moment("--start", text, BEGIN)


def test_a_begin_after_the_end_is_refused(tmp_path: Path, resource: Path) -> None:
    found = run(
        "--from", record(tmp_path / "a.jsonl", GOOD), "--baselines", resource, "--start", "2027-01-01T00:00:00Z"
    )
    assert found.exit_code == Exit.USAGE


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(-400, 400)), min_size=1, max_size=50), st.floats(1, 6))
def test_any_evidence_is_drawn_in_a_box_of_its_size(points: list[tuple[float, float]], breach_at: float) -> None:
    lines = plot.draw(sorted(points), breach_at)
    assert len(lines) == plot.HEIGHT + 2
    assert all(len(line) <= plot.WIDTH + 18 for line in lines)
    assert sum("Breach" in line for line in lines) == 1


def test_evidence_beyond_the_line_reaches_the_top() -> None:
    lines = plot.draw([(0, 0.0), (5, 1.0), (10, 3.5)], 3.0)
    assert lines[0].rstrip().endswith(plot.EIGHTHS[8])
    assert "┈" in next(line for line in lines if "Breach" in line)
