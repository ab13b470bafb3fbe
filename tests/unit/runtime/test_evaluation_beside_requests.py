"""The evaluation set in a whole serving process: what it tells, and that users do not notice."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from backstay_contract.manifest import EvaluationItem
from backstay_contract.metric import MetricName
from backstay_contract.names import RuntimeMetric
from backstay_judge import Round, Sample, read_rounds, round_of
from backstay_runtime import assemble
from backstay_runtime.api.app import create_app, guarded
from backstay_runtime.api.control import create_control
from backstay_runtime.api.service import Service
from backstay_runtime.model.linear import Dtype
from backstay_runtime.telemetry.metrics import Metrics
from prometheus_client.parser import text_string_to_metric_families

from .serving import IDENTITY, Place

TOKEN = "a token"
ITEMS = (
    EvaluationItem(text="The capital of France", nll=110.0, tokens=20),
    EvaluationItem(text="is", nll=5.0, tokens=1),
)


def load(folder: Path, items: tuple[EvaluationItem, ...]) -> assemble.Model:
    return assemble.load(
        folder, dtype=Dtype.FLOAT32, max_model_len=128, max_num_seqs=4, queue_length=16, evaluation=items
    )


async def serve(folder: Path, items: tuple[EvaluationItem, ...]) -> AsyncIterator[Place]:
    model = load(folder, items)
    limits = {MetricName.P99_LATENCY: 60_000.0}
    service = Service(IDENTITY, Metrics(IDENTITY, limits, "0.0.1"), runtime_version="0.0.1", limits=limits)
    service.loaded = assemble.start(model, service.metrics)
    one = Place(service, create_app(service), model.engine)
    try:
        yield one
    finally:
        await one.client.aclose()
        assert service.loaded.loop.stop(5)


@pytest.fixture
async def here(folder: Path) -> AsyncIterator[Place]:
    async for one in serve(folder, ITEMS):
        yield one


@pytest.fixture
async def bare(folder: Path) -> AsyncIterator[Place]:
    async for one in serve(folder, ()):
        yield one


async def ask(one: Place, path: str) -> Any:
    """The control port's answer."""
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    app = guarded(create_control(one.service, digest), one.service)
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://control", headers=headers
    ) as client:
        return (await client.get(path)).json()


async def round_is_over(one: Place) -> None:
    for _ in range(500):
        if one.service.metrics.evaluation.read().rounds:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no round came to its end")


async def test_without_requests_a_round_is_over_soon_and_the_control_port_tells_each_text(here: Place) -> None:
    await round_is_over(here)
    told = await ask(here, "/control/evaluation")
    assert (await ask(here, "/control/state"))["evaluation"] == {"items": 2, "done": 0, "rounds": 1, "problem": ""}
    assert [(item["recordedNll"], item["tokens"]) for item in told["found"]] == [(110.0, 20), (5.0, 1)]
    assert all(item["nll"] > 0 for item in told["found"])


async def test_the_judge_reads_from_the_metrics_what_the_control_port_tells(here: Place) -> None:
    await round_is_over(here)
    text = (await here.client.get("/metrics")).text
    now = time.time()
    samples = [
        Sample(sample.name, {**sample.labels, "pod": "a"}, sample.value, now)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    at = here.service.metrics.evaluation.read()
    found = read_rounds(samples, digest=IDENTITY.digest, now=datetime.fromtimestamp(now, UTC), max_age_seconds=1)["a"]
    assert found == at.last == round_of(at.found)
    assert isinstance(found, Round)


async def test_the_evaluation_is_in_no_figure_of_the_users(here: Place) -> None:
    await round_is_over(here)
    await here.complete(prompt="a", max_tokens=3)
    await here.quiet()
    assert here.value(RuntimeMetric.EVALUATION_TOKENS) == 21
    assert here.value(RuntimeMetric.TOKENS_IN) == 1
    assert here.value(RuntimeMetric.TOKENS_OUT) == 3
    assert here.value(RuntimeMetric.FINISHED, outcome="ok") == 1
    assert here.value(RuntimeMetric.JUDGED, metric="p99LatencyMs") == 1
    assert here.value(RuntimeMetric.IN_FLIGHT) == 0
    assert here.value(RuntimeMetric.KV_USED) == 0


async def test_requests_get_the_same_answers_while_the_set_is_computed(here: Place, bare: Place) -> None:
    prompts = [f"{letter} certain text" for letter in "abcdef"]
    beside, alone = [
        await asyncio.gather(*(one.complete(prompt=prompt, max_tokens=16) for prompt in prompts))
        for one in (here, bare)
    ]
    assert [a.json()["choices"][0]["text"] for a in beside] == [a.json()["choices"][0]["text"] for a in alone]
    assert here.service.metrics.evaluation.read().seconds > 0


async def test_a_model_without_a_set_says_so(bare: Place) -> None:
    nothing = {"items": 0, "done": 0, "rounds": 0, "problem": ""}
    assert (await ask(bare, "/control/state"))["evaluation"] == nothing
    assert await ask(bare, "/control/evaluation") == nothing | {"found": []}
    assert bare.value(RuntimeMetric.EVALUATION_ROUNDS) == 0


async def test_a_set_that_was_recorded_with_another_tokenizer_says_so_and_users_are_served(folder: Path) -> None:
    async for one in serve(folder, (EvaluationItem(text="abc", nll=1.0, tokens=7),)):
        assert "another tokenizer" in (await ask(one, "/control/state"))["evaluation"]["problem"]
        assert (await one.complete(prompt="a", max_tokens=2)).status_code == 200


def test_the_blocks_of_the_set_are_not_taken_from_the_users(folder: Path) -> None:
    with_set, without = load(folder, ITEMS), load(folder, ())
    assert with_set.engine.scheduler.pool.capacity == without.engine.scheduler.pool.capacity
