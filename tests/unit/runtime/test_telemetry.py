import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from backstay_contract.metric import MetricName
from backstay_runtime.api.middleware import outcome_of, trace_of
from backstay_runtime.telemetry import evidence, logs
from backstay_runtime.telemetry.evidence import Progress, beyond, crossing
from hypothesis import given
from hypothesis import strategies as st

from .serving import IDENTITY, Place, place

LATENCY, TTFT = MetricName.P99_LATENCY, MetricName.TTFT_P99
GAP, RATE = MetricName.INTER_TOKEN_P99, MetricName.TOKENS_PER_SECOND
LIMIT_LABEL = "60000.0"


@pytest.mark.parametrize(
    ("metric", "limit", "end", "slow"),
    [
        (LATENCY, 5000, 15.0, False),
        (LATENCY, 4999, 15.0, True),
        (TTFT, 1000, 15.0, False),
        (TTFT, 999, 15.0, True),
        (GAP, 1000, 15.0, False),
        (GAP, 999, 15.0, True),
        (RATE, 1.0, 15.0, False),
        (RATE, 1.1, 15.0, True),
    ],
)
def test_at_the_limit_is_within_and_beyond_it_is_slow(metric: MetricName, limit: float, end: float, slow: bool) -> None:
    progress = Progress(arrival=10.0, most_tokens=100, first_token=11.0, tokens=5)
    assert beyond(metric, limit, progress, end) is slow


def test_a_request_says_nothing_of_what_it_did_not_show() -> None:
    assert beyond(GAP, 100, Progress(0.0, 5, first_token=1.0, tokens=1), 2.0) is None
    assert beyond(TTFT, 100, Progress(0.0, 5), 2.0) is None


def test_a_first_token_that_came_cannot_be_late_any_more() -> None:
    assert crossing(TTFT, 500, Progress(10.0, 5)) == 10.5
    assert crossing(TTFT, 500, Progress(10.0, 5, first_token=10.2)) is None


@given(
    metric=st.sampled_from(evidence.JUDGED),
    limit=st.floats(0.1, 1e4),
    most=st.integers(1, 100),
    first=st.floats(0, 100),
    more=st.floats(0, 1000),
    data=st.data(),
)
def test_a_request_that_has_crossed_is_slow_when_it_ends(
    metric: MetricName, limit: float, most: int, first: float, more: float, data: st.DataObject
) -> None:
    """Counting in flight never counts a request that would have been within the limit."""
    tokens = data.draw(st.integers(1, most))
    seen = Progress(0.0, most, first_token=first, tokens=tokens)
    if metric is TTFT:
        seen = Progress(0.0, most, first_token=None)
    at = crossing(metric, limit, seen)
    end = first + more
    final = Progress(0.0, most, first_token=end if metric is TTFT else first, tokens=tokens)
    if at is not None and end > at * (1 + 1e-9):
        assert beyond(metric, limit, final, end) in (True, None)


@pytest.fixture
async def here(folder: Path) -> AsyncIterator[Place]:
    async with place(folder, limits={LATENCY: 60_000.0, TTFT: 60_000.0}) as one:
        yield one


async def test_all_series_are_there_at_zero_before_anything_happens(here: Place) -> None:
    for outcome in ("ok", "error", "cancelled", "rejected"):
        assert here.value("backstay_requests_finished_total", outcome=outcome) == 0
    for metric in (LATENCY, TTFT):
        assert here.value("backstay_requests_judged_total", metric=metric) == 0
        assert here.value("backstay_requests_beyond_limit_total", metric=metric, limit=LIMIT_LABEL) == 0
    assert here.value("backstay_request_duration_seconds_count") == 0
    assert here.value("backstay_preemptions_total") == 0


async def test_a_good_request_is_counted_everywhere_once(here: Place) -> None:
    await here.complete(prompt="abc", max_tokens=7)
    assert here.value("backstay_requests_finished_total", outcome="ok") == 1
    assert here.value("backstay_requests_judged_total", metric=LATENCY) == 1
    assert here.value("backstay_requests_judged_total", metric=TTFT) == 1
    assert here.value("backstay_requests_beyond_limit_total", metric=LATENCY, limit=LIMIT_LABEL) == 0
    assert here.value("backstay_prompt_tokens_total") == 3
    assert here.value("backstay_generated_tokens_total") == 7
    for name in ("request_duration", "time_to_first_token", "queue_wait", "prefill", "decode"):
        assert here.value(f"backstay_{name}_seconds_count") == 1
    assert here.value("backstay_inter_token_seconds_count") == 6


async def test_the_time_to_the_first_token_is_the_wait_in_the_queue_and_the_prefill(here: Place) -> None:
    await here.complete(prompt="abc", max_tokens=2)
    waited, filled, first = (
        here.value(f"backstay_{name}_seconds_sum") or 0.0 for name in ("queue_wait", "prefill", "time_to_first_token")
    )
    assert filled > 0
    assert waited + filled == pytest.approx(first, rel=1e-6)


async def test_histograms_have_an_edge_at_each_limit(folder: Path) -> None:
    async with place(folder, limits={LATENCY: 333.0}) as one:
        assert one.value("backstay_request_duration_seconds_bucket", le="0.333") == 0
        assert one.value("backstay_request_duration_seconds_bucket", le="1.665") == 0
        assert one.value("backstay_time_to_first_token_seconds_bucket", le="0.333") is None


async def test_a_request_that_hangs_is_counted_as_slow_while_it_hangs_and_only_once(folder: Path) -> None:
    limit = {"metric": LATENCY, "limit": "1.0"}
    async with place(folder, limits={LATENCY: 1.0}) as one:
        running = asyncio.ensure_future(one.complete(prompt="a", max_tokens=120))
        for _ in range(100):
            await asyncio.sleep(0.002)
            if one.value("backstay_requests_beyond_limit_total", **limit):
                break
        assert not running.done()
        assert one.value("backstay_requests_judged_total", metric=LATENCY) == 1
        assert (await running).status_code == 200
        assert one.value("backstay_requests_beyond_limit_total", **limit) == 1
        assert one.value("backstay_requests_judged_total", metric=LATENCY) == 1


async def test_refused_requests_are_no_evidence(here: Place) -> None:
    await here.complete(prompt="", max_tokens=7)
    assert here.value("backstay_requests_finished_total", outcome="rejected") == 1
    assert here.value("backstay_requests_judged_total", metric=LATENCY) == 0
    assert here.value("backstay_request_duration_seconds_count") == 0


def test_the_status_says_the_outcome_where_nothing_else_does() -> None:
    statuses = {
        200: "ok",
        400: "rejected",
        404: "rejected",
        503: "rejected",
        500: "error",
        504: "error",
        None: "cancelled",
    }
    assert {status: outcome_of(status) for status in statuses} == statuses


async def test_each_request_leaves_one_end_record_with_its_trace(here: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="backstay_runtime.requests")
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    body = {"prompt": "my secret prompt", "max_tokens": 3, "temperature": 0}
    answer = await here.client.post("/v1/completions", json=body, headers=headers)
    assert answer.headers["x-trace-id"] == trace
    lines = [json.loads(logs.JsonFormatter().format(record)) for record in caplog.records]
    ended = [line for line in lines if line["message"] == "request ended"]
    assert len(ended) == 1
    assert ended[0]["trace_id"] == trace
    assert (ended[0]["outcome"], ended[0]["status"], ended[0]["completion_tokens"]) == ("ok", 200, 3)
    assert ended[0]["digest"] == IDENTITY.digest
    assert "secret" not in json.dumps(lines)


@given(st.dictionaries(st.sampled_from([b"traceparent", b"x-trace-id", b"x-request-id"]), st.binary(max_size=70)))
def test_whatever_a_client_sends_the_trace_is_a_short_word(headers: dict[bytes, bytes]) -> None:
    trace = trace_of(headers)
    assert 1 <= len(trace) <= 64
    assert trace.isascii()
    assert trace.isprintable()
    assert " " not in trace


def test_a_log_line_is_json_whatever_it_says() -> None:
    record = logging.LogRecord("a", logging.INFO, "", 0, 'said "%s"\n', ("\ud800",), None)
    assert json.loads(logs.JsonFormatter().format(record))["message"] == 'said "\ud800"\n'
