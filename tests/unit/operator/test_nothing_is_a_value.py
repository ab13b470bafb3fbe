"""From what a source answers to a verdict: only a trustworthy number is evidence, and nothing else decides.

Each look goes the operator's own way: HTTP answer, parser, reading, evidence, judge; from Prometheus and from the pods.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from backstay_contract.evidence import AttemptVerdict, EvidenceSource, VerdictKind
from backstay_contract.metric import MetricName
from backstay_contract.names import RuntimeMetric
from backstay_contract.rollout import MetricsSource
from backstay_contract.status import Attempt, Colour, MetricLimit
from backstay_judge.rounds import ROUND_SERIES
from backstay_operator.evidence import exposition, look
from backstay_operator.http import Answer, HttpError
from backstay_operator.rollout import judging
from backstay_operator.rollout.observation import ColourState, Look, Pod

from .rollout.world import spec

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DIGEST = "sha256:" + "ab" * 32
LIMIT, PERPLEXITY = 500.0, 22.0
PODS = tuple(Pod(name, "rev", "rev-1", ready=True, ip=f"10.0.0.{index}") for index, name in enumerate("ab", start=1))
SPEC = spec(soak={"intervalSeconds": 1})
PASS, BREACH, NO_DATA = VerdictKind.PASS, VerdictKind.BREACH, VerdictKind.NO_DATA


def text(judged: int, slow: int, *, excess: float = 0.0, digest: str = DIGEST) -> str:
    """A pod's /metrics."""
    who = f'digest="{digest}",model="chat",version="1"'
    rounds = zip(ROUND_SERIES, (10, 0, 20.0, excess, 0.001, 9), strict=True)
    return "\n".join(
        [
            f'{RuntimeMetric.JUDGED}{{{who},metric="p99LatencyMs"}} {judged}',
            f'{RuntimeMetric.SLOW}{{{who},metric="p99LatencyMs",limit="{LIMIT}"}} {slow}',
            f'{RuntimeMetric.FINISHED}{{{who},outcome="ok"}} {judged}',
            f'{RuntimeMetric.FINISHED}{{{who},outcome="error"}} 0',
            f"{RuntimeMetric.EVALUATION_ROUNDS}{{{who}}} 1",
            *(f"{name}{{{who}}} {value}" for name, value in rounds),
            "process_start_time_seconds 1.7e9",
            "",
        ]
    )


def matrix(texts: dict[str, str], at: datetime, up: float = 1, **more: Any) -> Answer:
    """The same as Prometheus has it, scraped at that time."""
    series = [
        {"metric": dict(sample.labels) | {"__name__": sample.name}, "values": [[at.timestamp(), str(sample.value)]]}
        for pod, said in texts.items()
        for sample in exposition.samples(said, pod, at.timestamp())
    ]
    series += [{"metric": {"__name__": "up", "pod": pod}, "values": [[at.timestamp(), str(up)]]} for pod in texts]
    body = {"status": "success", "data": {"resultType": "matrix", "result": series}, **more}
    return Answer(200, {}, json.dumps(body).encode())


class Soak:
    """A soak that is looked at through one source: two good looks, or two bad ones, and then something else."""

    def __init__(self, http: Any, source: MetricsSource, *, bad: bool) -> None:
        self._http, self._source, self.bad = http, source, bad
        self.now = NOON
        self.attempt = Attempt(
            id="rev-1",
            revision="rev",
            digest=DIGEST,
            version="1",
            colour=Colour.GREEN,
            image="runtime:1",
            started_at=NOON,
            switched_at=NOON,
            limits=(
                MetricLimit(metric=MetricName.P99_LATENCY, limit=LIMIT),
                MetricLimit(metric=MetricName.PERPLEXITY, limit=PERPLEXITY),
            ),
        )
        self.requests = 0
        self.see()
        self.see()
        self.see()

    def said(self, more: int = 300) -> dict[str, str]:
        self.requests += more
        slow, excess = (self.requests, 1.0) if self.bad else (0, 0.0)
        return {pod.name: text(self.requests, slow, excess=excess) for pod in PODS}

    def answer(self, texts: dict[str, str]) -> None:
        self._http.answer("POST", "/api/v1/query$", matrix(texts, self.now))
        for pod in PODS:
            self._http.answer("GET", f"{pod.ip}:8000/metrics$", Answer(200, {}, texts[pod.name].encode()))

    def see(self) -> AttemptVerdict:
        self.now += timedelta(seconds=1)
        self.answer(self.said())
        return self.look()

    def look(self) -> AttemptVerdict:
        seen: Look = asyncio.run(
            look.look(self._http, self._source, "http://prometheus", "prod", PODS, self.now.timestamp)
        )
        state = ColourState(Colour.GREEN, exists=True, attempt="rev-1", digest=DIGEST, replicas=2, pods=PODS)
        self.attempt, verdict = judging.advance(SPEC, self.attempt, state, seen, self.now, switched=True)
        assert verdict is not None
        return verdict


SOURCES = [MetricsSource.PROMETHEUS, MetricsSource.PODS]


@pytest.mark.case("R62")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("bad", "expected"), [(False, PASS), (True, BREACH)])
def test_what_is_whole_decides_and_names_its_source(
    http: Any, source: MetricsSource, bad: bool, expected: VerdictKind
) -> None:
    found = Soak(http, source, bad=bad).see()
    assert found.verdict is expected
    judged = [one for one in found.metrics if one.verdict is not VerdictKind.SKIPPED]
    assert [(one.metric, one.verdict) for one in judged] == [
        (MetricName.P99_LATENCY, expected),
        (MetricName.PERPLEXITY, expected),
    ]
    assert {one.source for one in judged} == {EvidenceSource(source.value)}
    query = f'{{digest="{DIGEST}",pod=~"a|b"}}' if source is MetricsSource.PROMETHEUS else "GET /metrics"
    assert {one.query for one in judged} == {query}


def valued(name: str, value: str) -> Callable[[str], str]:
    def change(said: str) -> str:
        return "\n".join(
            f"{line.rpartition(' ')[0]} {value}" if line.startswith(name) else line for line in said.split("\n")
        )

    return change


def without(name: str) -> Callable[[str], str]:
    return lambda said: "\n".join(line for line in said.split("\n") if not line.startswith(name))


def doubled(name: str) -> Callable[[str], str]:
    return lambda said: "\n".join(
        part
        for line in said.split("\n")
        for part in ([line, line.replace("{", '{job="2",')] if line.startswith(name) else [line])
    )


SERIES = [RuntimeMetric.JUDGED, RuntimeMetric.SLOW, "process_start_time_seconds", *ROUND_SERIES]
TEXTS: dict[str, Callable[[str], str]] = {
    **{f"{value} in {name}": valued(name, value) for name in SERIES for value in ("NaN", "+Inf", "-Inf")},
    **{f"no {name}": without(name) for name in SERIES},
    **{f"two of {name}": doubled(name) for name in SERIES if not name.startswith("process")},
    "an empty text": lambda _: "",
    "another digest": lambda said: said.replace(DIGEST, "sha256:" + "00" * 32),
    "a negative count": valued(RuntimeMetric.SLOW, "-1"),
    "a broken count": valued(RuntimeMetric.JUDGED, "10.5"),
    "more slow than all": valued(RuntimeMetric.SLOW, "1e9"),
}


@pytest.mark.case("T41", "R47")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("bad", [False, True], ids=["would pass", "would breach"])
@pytest.mark.parametrize("what", TEXTS)
def test_a_text_with_something_else_is_no_data_whatever_was_counted_before(
    http: Any, source: MetricsSource, bad: bool, what: str
) -> None:
    soak = Soak(http, source, bad=bad)
    counted = [(one.n, one.k) for one in soak.attempt.evidence]
    soak.now += timedelta(seconds=1)
    soak.answer({pod: TEXTS[what](said) for pod, said in soak.said(0).items()})
    found = soak.look()
    assert found.verdict in (NO_DATA, BREACH if bad else NO_DATA)
    spoilt = [one for one in found.metrics if one.verdict is NO_DATA]
    assert spoilt
    assert [(one.n, one.k) for one in soak.attempt.evidence] == counted


ANSWERS = {
    "401": Answer(401, {}, b"Unauthorized"),
    "403": Answer(403, {}, b"Forbidden"),
    "500": Answer(500, {}, b"oops"),
    "503": Answer(503, {}, b"loading"),
    "a redirect": Answer(302, {"location": "/elsewhere"}, b""),
    "a timeout": HttpError("no answer within 2 s"),
    "no connection": HttpError("ConnectError"),
    "HTML": Answer(200, {}, b"<html>"),
    "bytes": Answer(200, {}, b"\xff\xfe"),
    "nothing": Answer(200, {}, b""),
}


@pytest.mark.case("T41", "R47")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("bad", [False, True], ids=["would pass", "would breach"])
@pytest.mark.parametrize("what", ANSWERS)
def test_an_answer_that_is_none_is_no_data_and_stops_the_clock(
    http: Any, source: MetricsSource, bad: bool, what: str
) -> None:
    soak = Soak(http, source, bad=bad)
    before = soak.attempt
    soak.now += timedelta(seconds=1)
    http.answer("POST", "/api/v1/query$", ANSWERS[what])
    http.answer("GET", "/metrics$", ANSWERS[what])
    found = soak.look()
    assert found.verdict is NO_DATA
    assert found.message
    assert {one.verdict for one in found.metrics} == {NO_DATA, VerdictKind.SKIPPED}
    assert soak.attempt.observed_seconds == before.observed_seconds
    assert [(one.n, one.k) for one in soak.attempt.evidence] == [(one.n, one.k) for one in before.evidence]


@pytest.mark.case("T41", "R56")
@pytest.mark.parametrize("bad", [False, True], ids=["would pass", "would breach"])
def test_series_that_prometheus_scraped_too_long_ago_are_no_data(http: Any, bad: bool) -> None:
    soak = Soak(http, MetricsSource.PROMETHEUS, bad=bad)
    soak.now += timedelta(seconds=judging.MAX_AGE_SECONDS + 1)
    found = soak.look()
    assert found.verdict is NO_DATA
    assert "s old" in found.message


@pytest.mark.case("T41")
@pytest.mark.parametrize("bad", [False, True], ids=["would pass", "would breach"])
def test_a_pod_that_prometheus_could_not_scrape_is_no_data(http: Any, bad: bool) -> None:
    soak = Soak(http, MetricsSource.PROMETHEUS, bad=bad)
    soak.now += timedelta(seconds=1)
    http.answer("POST", "/api/v1/query$", matrix(soak.said(0), soak.now, up=0))
    assert soak.look().verdict is NO_DATA


def test_an_outage_of_prometheus_in_mid_soak_counts_nothing_twice_and_loses_nothing(http: Any) -> None:
    soak = Soak(http, MetricsSource.AUTO, bad=False)
    served = 300 * len(PODS) * 2  # since the first look, which was the base
    assert soak.attempt.evidence[0].n == served
    for away in (True, True, False, True, False):
        soak.now += timedelta(seconds=1)
        soak.answer(soak.said())
        if away:
            http.answer("POST", "/api/v1/query$", Answer(503, {}, b""))
        found = soak.look()
        served += 300 * len(PODS)
        assert soak.attempt.evidence[0].n == served
        assert found.verdict is PASS
        expected = EvidenceSource.PODS if away else EvidenceSource.PROMETHEUS
        assert found.metrics[0].source is expected
