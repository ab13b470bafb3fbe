"""backstay judge: a recorded time judged again, from a recording and from a Prometheus."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from backstay_cli.commands.judge import moment
from backstay_cli.errors import CliError, Exit
from backstay_cli.main import app
from backstay_cli.replay import baselines, plot, prometheus, recording
from backstay_cli.replay.replay import Rules, decision, looks
from backstay_cli.replay.scrapes import GONE_SECONDS, Scrape, Scrapes, from_series, parse
from backstay_contract import manifest as manifests
from backstay_contract.manifest import Architecture, Manifest, ModelFile, RecordedBaseline
from backstay_contract.measurement import Measurement
from backstay_contract.metric import MetricName
from backstay_contract.names import RuntimeMetric
from backstay_judge import COUNTED
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

P99 = MetricName.P99_LATENCY
DIGEST = "sha256:" + "9f" * 32
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()
LIMIT = 840.0
MANIFEST = Manifest(
    name="chat",
    version="1.0.0",
    files=(ModelFile(path="model.safetensors", size=1, sha256=DIGEST),),
    architecture=Architecture(family="llama"),
    baselines={P99: RecordedBaseline(value=420, unit="ms", measured=Measurement(method="declared"))},
)
RESOURCE = f"""
apiVersion: backstay.dev/v1alpha1
kind: ModelDeployment
metadata: {{name: chat}}
spec:
  model:
    name: chat
    version: 1.0.0
    uri: s3://models/chat/1.0.0
    sha256: {DIGEST}
    storage: {{endpoint: "http://minio:9000"}}
  baselines: {{p99LatencyMs: {{value: 420, tolerance: 2}}}}
  rollout: {{soak: {{minSeconds: 4, intervalSeconds: 1, alpha: 0.01}}}}
"""


def metrics(judged: int, slow: int, *, digest: str = DIGEST, errors: int = 0) -> str:
    """A pod's /metrics text."""
    who = f'model="chat",version="1.0.0",digest="{digest}"'
    return (
        f'{RuntimeMetric.JUDGED}{{{who},metric="p99LatencyMs"}} {judged}\n'
        f'{RuntimeMetric.SLOW}{{{who},metric="p99LatencyMs",limit="840.0"}} {slow}\n'
        f'{RuntimeMetric.FINISHED}{{{who},outcome="ok"}} {judged - errors}\n'
        f'{RuntimeMetric.FINISHED}{{{who},outcome="error"}} {errors}\n'
        f"process_start_time_seconds {BEGIN - 60}\n"
    )


Counts = Sequence[tuple[int, int]]
"""Requests, and those of them beyond the limit, second by second."""


def scrapes(steps: Counts, pods: str = "ab") -> list[Scrape]:
    """A scrape a second of pods that all get the same."""
    found, n, k = [], 0, 0
    for second, (more, slow) in enumerate([(0, 0), *steps]):
        n, k = n + more, k + slow
        found += [Scrape(BEGIN + second, pod, parse(metrics(n, k), pod, BEGIN + second)) for pod in pods]
    return found


def record(path: Path, steps: Counts, pods: str = "ab") -> Path:
    """The same as a recording."""
    n = k = 0
    with path.open("w") as file:
        for second, (more, slow) in enumerate([(0, 0), *steps]):
            n, k = n + more, k + slow
            file.writelines(recording.line(BEGIN + second, pod, metrics=metrics(n, k)) for pod in pods)
    return path


@pytest.fixture
def resource(tmp_path: Path) -> Path:
    path = tmp_path / "chat.yaml"
    path.write_text(RESOURCE)
    return path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["judge", *map(str, arguments)])


GOOD, BAD, SLOW_LATER = [(50, 0)] * 20, [(5, 5)] * 10, [(20, 0)] * 10 + [(20, 16)] * 10

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
