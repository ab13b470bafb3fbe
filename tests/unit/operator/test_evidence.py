import asyncio
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from backstay_contract.evidence import EvidenceSource
from backstay_contract.metric import MetricName
from backstay_contract.names import RuntimeMetric
from backstay_contract.resource import parse_spec
from backstay_contract.rollout import MetricsSource
from backstay_contract.status import Attempt, Colour, MetricLimit, ModelDeploymentStatus, Phase
from backstay_judge import Sample
from backstay_operator.evidence import exposition, look, prometheus
from backstay_operator.http import Answer, HttpError
from backstay_operator.rollout.observation import Look, Pod

NOW = 1_760_000_000.0
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
URL = "http://prometheus:9090"
TEXT = f"""# HELP {RuntimeMetric.JUDGED} Requests.
# TYPE {RuntimeMetric.JUDGED} counter
{RuntimeMetric.JUDGED}{{digest="d",metric="p99LatencyMs"}} 7
{RuntimeMetric.FINISHED}{{digest="d",outcome="ok"}} 7
{RuntimeMetric.REQUEST_SECONDS}_bucket{{digest="d",le="+Inf"}} 7
{RuntimeMetric.REQUEST_SECONDS}_sum{{digest="d"}} 1.5
python_gc_objects_collected_total{{generation="0"}} 100
process_start_time_seconds 1.75e9
"""


def pod(name: str, *, ready: bool = True, ip: str | None = "10.0.0.1", terminating: bool = False) -> Pod:
    return Pod(name, "rev", "rev-1", ready=ready, ip=ip, terminating=terminating)


PODS = (pod("a", ip="10.0.0.1"), pod("b", ip="10.0.0.2"))


# --- the text of a pod -------------------------------------------------------------------------------------------


def test_a_pods_text_gives_the_series_that_count_with_its_name_and_the_time_of_the_request() -> None:
    found = exposition.samples(TEXT, "a", NOW)
    assert {sample.name for sample in found} == {
        RuntimeMetric.JUDGED,
        RuntimeMetric.FINISHED,
        f"{RuntimeMetric.REQUEST_SECONDS}_bucket",
        "process_start_time_seconds",
    }
    assert {(sample.labels["pod"], sample.timestamp) for sample in found} == {("a", NOW)}
    assert found[0].value == 7


def test_a_text_that_is_no_exposition_is_refused() -> None:
    with pytest.raises(ValueError, match=r".+"):
        exposition.samples(f"{RuntimeMetric.JUDGED}{{broken 7\n", "a", NOW)


def test_a_value_that_is_no_number_stays_one_for_the_judge_to_refuse() -> None:
    (sample,) = exposition.samples(f'{RuntimeMetric.FINISHED}{{outcome="ok"}} NaN\n', "a", NOW)
    assert math.isnan(sample.value)


# --- Prometheus --------------------------------------------------------------------------------------------------


def matrix(*series: Any, **more: Any) -> Answer:
    body = {"status": "success", "data": {"resultType": "matrix", "result": list(series)}, **more}
    return Answer(200, {}, json.dumps(body).encode())


def series(name: str = RuntimeMetric.FINISHED, of: str = "a", at: float = NOW, value: Any = "7") -> dict[str, Any]:
    metric = {"__name__": name, "pod": of, "outcome": "ok"}
    return {"metric": metric, "values": [[at - 1, "1"], [at, value]]}


def test_the_query_names_the_pods_and_the_namespace_and_asks_for_raw_points() -> None:
    text = prometheus.query("prod", ["chat-green-b", "chat-green-a.x"])
    assert 'namespace="prod"' in text
    assert 'pod=~"chat\\\\-green\\\\-a\\\\.x|chat\\\\-green\\\\-b"' in text
    assert text.endswith("[30s]")
    assert f"{RuntimeMetric.JUDGED}|{RuntimeMetric.SLOW}" in text
    assert "rate(" not in text


def test_the_last_point_of_each_series_counts_with_the_time_of_its_scrape() -> None:
    (sample,) = prometheus.parse(matrix(series()))
    assert sample == Sample(RuntimeMetric.FINISHED, {"pod": "a", "outcome": "ok"}, 7.0, NOW)


NON_VALUES = {
    "a client error": Answer(401, {}, b"no"),
    "a server error": Answer(503, {}, b"no"),
    "no JSON": Answer(200, {}, b"<html>"),
    "NaN as JSON": Answer(200, {}, b'{"status": "success", "data": NaN}'),
    "another status": Answer(200, {}, b'{"status": "error", "error": "timeout"}'),
    "a list": Answer(200, {}, b"[]"),
    "a vector": Answer(200, {}, b'{"status": "success", "data": {"resultType": "vector", "result": []}}'),
    "no result": Answer(200, {}, b'{"status": "success", "data": {"resultType": "matrix"}}'),
    "a partial answer": matrix(series(), warnings=["one store is away"]),
    "a number that is no string": matrix(series(value=7)),
    "a word": matrix(series(value="many")),
    "a time that is a word": matrix({"metric": {"__name__": "x"}, "values": [["now", "1"]]}),
    "no points": matrix({"metric": {"__name__": "x"}, "values": []}),
    "no name": matrix({"metric": {}, "values": [[NOW, "1"]]}),
    "no object": matrix(7),
}


@pytest.mark.parametrize("what", NON_VALUES)
@pytest.mark.case("T41", "R47")
def test_what_is_no_whole_answer_becomes_words_and_never_a_number(what: str) -> None:
    with pytest.raises(HttpError) as error:
        prometheus.parse(NON_VALUES[what])
    assert str(error.value)


# --- which source ------------------------------------------------------------------------------------------------


def take(http: Any, source: MetricsSource, url: str | None = URL, pods: tuple[Pod, ...] = PODS) -> Look:
    return asyncio.run(look.look(http, source, url, "prod", pods, lambda: NOW))


@pytest.fixture
def answering(http: Any) -> Any:
    http.answer("GET", "/metrics$", Answer(200, {}, TEXT.encode()))
    http.answer("POST", "/api/v1/query$", matrix(series(of="a"), series(of="b")))
    return http


def test_auto_asks_prometheus_where_it_covers_every_ready_pod(answering: Any) -> None:
    seen = take(answering, MetricsSource.AUTO)
    assert (seen.source, seen.problem, len(seen.samples)) == (EvidenceSource.PROMETHEUS, "", 2)
    assert [method for method, _, _ in answering.requests] == ["POST"]


@pytest.mark.parametrize(
    "answer",
    [
        matrix(series(of="a")),
        matrix(series(of="a"), series(of="b", at=NOW - 6)),
        matrix(),
        Answer(500, {}, b""),
        HttpError("no answer within 2 s"),
    ],
)
def test_auto_asks_the_pods_where_prometheus_is_away_or_late_or_misses_one(answering: Any, answer: Any) -> None:
    answering.answer("POST", "/api/v1/query$", answer)
    seen = take(answering, MetricsSource.AUTO)
    assert seen.source is EvidenceSource.PODS
    assert {sample.labels["pod"] for sample in seen.samples} == {"a", "b"}


def test_auto_without_a_prometheus_asks_the_pods_only(answering: Any) -> None:
    assert take(answering, MetricsSource.AUTO, url=None).source is EvidenceSource.PODS
    assert {method for method, _, _ in answering.requests} == {"GET"}


def test_what_prometheus_has_is_better_than_pods_that_do_not_answer(answering: Any) -> None:
    answering.answer("GET", "/metrics$", HttpError("ConnectError"))
    answering.answer("POST", "/api/v1/query$", matrix(series(of="a")))
    seen = take(answering, MetricsSource.AUTO)
    assert seen.source is EvidenceSource.PROMETHEUS
    assert seen.problem == "Prometheus has no series of b"


def test_a_fixed_source_is_never_replaced(answering: Any) -> None:
    answering.answer("POST", "/api/v1/query$", HttpError("no answer within 2 s"))
    seen = take(answering, MetricsSource.PROMETHEUS)
    assert (seen.samples, seen.source, seen.problem) == ((), EvidenceSource.PROMETHEUS, "no answer within 2 s")
    assert take(answering, MetricsSource.PODS).source is EvidenceSource.PODS


def test_prometheus_without_a_url_says_what_is_missing(answering: Any) -> None:
    assert "without a Prometheus URL" in take(answering, MetricsSource.PROMETHEUS, url=None).problem


def test_only_ready_pods_are_asked_and_without_one_nothing_is(answering: Any) -> None:
    pods = (pod("a"), pod("b", ready=False), pod("c", terminating=True))
    take(answering, MetricsSource.PODS, pods=pods)
    assert len(answering.requests) == 1
    assert take(answering, MetricsSource.PODS, pods=pods[1:]).problem == "no pod of the attempt is ready"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(500, {}, b""), "pod b: /metrics answered 500"),
        (HttpError("no answer within 2 s"), "pod b: /metrics: no answer within 2 s"),
        (Answer(200, {}, f"{RuntimeMetric.JUDGED}{{broken".encode()), "pod b: /metrics is no exposition"),
        (Answer(200, {}, b"\xff\xfe"), "pod b: /metrics is no exposition"),
    ],
)
def test_a_pod_that_cannot_be_read_is_named_and_the_others_count(answering: Any, answer: Any, said: str) -> None:
    answering.answer("GET", r"10\.0\.0\.2:8000/metrics$", answer)
    seen = take(answering, MetricsSource.PODS)
    assert {sample.labels["pod"] for sample in seen.samples} == {"a"}
    assert said in seen.problem


def test_a_pod_without_an_address_is_not_asked(answering: Any) -> None:
    seen = take(answering, MetricsSource.PODS, pods=(pod("a", ip=None),))
    assert seen == Look((), EvidenceSource.PODS, "pod a: has no address yet")


# --- when --------------------------------------------------------------------------------------------------------

SPEC = parse_spec(
    {
        "model": {
            "name": "m",
            "version": "1",
            "uri": "s3://models/m/1",
            "sha256": "ab" * 32,
            "storage": {"endpoint": "http://minio:9000"},
        },
        "rollout": {"soak": {"intervalSeconds": 2}},
    }
)


def status(phase: Phase, **attempt: Any) -> ModelDeploymentStatus:
    fields = {
        "id": "r-1",
        "revision": "r",
        "digest": "sha256:" + "ab" * 32,
        "version": "1",
        "colour": Colour.GREEN,
        "image": "i",
        "started_at": NOON,
        "limits": (MetricLimit(metric=MetricName.ERROR_RATE, limit=0.1),),
        **attempt,
    }
    return ModelDeploymentStatus(phase=phase, attempt=Attempt(**fields))


@pytest.mark.parametrize(
    "resting",
    [
        ModelDeploymentStatus(),
        status(Phase.SERVING, ended_at=NOON),
        status(Phase.CHECKING, limits=()),
    ],
)
def test_nothing_is_looked_at_without_an_open_attempt_that_has_limits(resting: ModelDeploymentStatus) -> None:
    assert look.due_in(SPEC, resting, None, NOON) is None
    assert not look.is_due(SPEC, resting, None, NOON)


def test_the_first_look_is_due_at_once_and_the_next_after_the_interval() -> None:
    soaking = status(Phase.SOAKING, switched_at=NOON)
    assert look.is_due(SPEC, soaking, None, NOON)
    assert look.due_in(SPEC, soaking, NOON, NOON + timedelta(seconds=0.5)) == 1.5
    assert not look.is_due(SPEC, soaking, NOON, NOON + timedelta(seconds=1.5))
    assert look.is_due(SPEC, soaking, NOON, NOON + timedelta(seconds=1.9))
    assert look.due_in(SPEC, soaking, NOON, NOON + timedelta(seconds=5)) == 0


@pytest.mark.parametrize("phase", [Phase.CHECKING, Phase.AWAITING_PROMOTION])
def test_until_the_flip_every_pass_looks_as_it_may_be_the_one_that_flips(phase: Phase) -> None:
    assert look.is_due(SPEC, status(phase), NOON, NOON)
    assert not look.is_due(SPEC, status(phase, switched_at=NOON), NOON, NOON)


def test_while_a_person_is_awaited_looks_are_rare() -> None:
    waiting = status(Phase.AWAITING_PROMOTION)
    assert look.due_in(SPEC, waiting, NOON, NOON) == look.WAITING_SECONDS
