import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from backstay_runtime.api import health
from prometheus_client.parser import text_string_to_metric_families

from . import tiny
from .machinery import make_engine
from .serving import IDENTITY, place


async def test_ready_names_model_version_and_digest(folder: Path) -> None:
    async with place(folder) as one:
        answer = await one.client.get("/readyz")
        assert answer.status_code == 200
        said = answer.json()
        assert (said["model"], said["version"], said["digest"]) == ("tiny", "1.2.0", IDENTITY.digest)


async def test_a_readiness_probe_runs_the_model_and_is_not_counted(folder: Path) -> None:
    async with place(folder) as one:
        ran: list[int] = []
        run = one.engine._runner.run

        def counted(slices: Any) -> Any:
            ran.append(len(slices))
            return run(slices)

        one.engine._runner.run = counted  # type: ignore[method-assign]
        assert (await one.client.get("/readyz")).status_code == 200
        await one.quiet()
        assert ran == [1]
        for name in ("backstay_generated_tokens_total", "backstay_prompt_tokens_total", "backstay_batch_size_count"):
            assert one.value(name) == 0
        assert one.value("backstay_requests_finished_total", outcome="ok") == 0


async def test_many_checkers_cost_one_probe(folder: Path) -> None:
    async with place(folder) as one:
        ran = 0
        run = one.engine._runner.run

        def counted(slices: Any) -> Any:
            nonlocal ran
            ran += 1
            return run(slices)

        one.engine._runner.run = counted  # type: ignore[method-assign]
        answers = await asyncio.gather(*(one.client.get("/readyz") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        assert ran == 1


async def test_ready_though_queue_and_cache_are_full(folder: Path) -> None:
    async with place(folder, max_sequences=1, queue_length=0, blocks=2 + 40) as one:
        busy = asyncio.ensure_future(one.complete(prompt="a" * 40, max_tokens=80))
        await asyncio.sleep(0.02)
        assert (await one.complete(prompt="a")).status_code == 503
        assert (await one.client.get("/readyz")).status_code == 200
        assert (await busy).status_code == 200


async def test_while_tokens_flow_a_busy_server_is_ready_without_a_probe(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place(folder) as one:
        busy = asyncio.ensure_future(one.complete(prompt="a", max_tokens=120))
        while one.value("backstay_generated_tokens_total") == 0:  # noqa: ASYNC110 - nothing tells us of it
            await asyncio.sleep(0.001)

        async def no_probe(_: object) -> str:
            return "a probe ran"

        monkeypatch.setattr(health, "probe", no_probe)
        assert (await one.client.get("/readyz")).status_code == 200
        monkeypatch.setattr(health, "PROGRESS_SECONDS", 0.0)
        assert "a probe ran" in (await one.client.get("/readyz")).text
        await busy


async def test_a_model_whose_numbers_are_not_finite_never_becomes_ready(tmp_path: Path) -> None:
    weights = tiny.tensors()
    weights["model.norm.weight"][0] = float("nan")
    async with place(tiny.write(tmp_path, weights)) as one:
        answer = await one.client.get("/readyz")
        assert answer.status_code == 503
        assert "non_finite_logits" in answer.json()["error"]["message"]


@pytest.mark.case("I21")
async def test_a_step_that_hangs_turns_readiness_and_then_liveness(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(health, "STUCK_SECONDS", 0.3)
    engine = make_engine(folder, blocks=130)
    release, run = threading.Event(), engine._runner.run

    def hanging(slices: Any) -> Any:
        release.wait(20)
        return run(slices)

    engine._runner.run = hanging  # type: ignore[method-assign]
    async with place(folder, engine=engine) as one:
        hung = asyncio.ensure_future(one.complete(prompt="a", max_tokens=3))
        await asyncio.sleep(0.02)
        assert (await one.client.get("/healthz")).status_code == 200
        answer = await one.client.get("/readyz")
        assert answer.status_code == 503
        assert "no token within 0.1 s" in answer.json()["error"]["message"]
        await asyncio.sleep(0.3)
        assert (await one.client.get("/healthz")).json()["error"]["code"] == "engine_stuck"
        release.set()
        assert (await hung).status_code == 200
        assert (await one.client.get("/readyz")).status_code == 200
        assert (await one.client.get("/healthz")).status_code == 200


@pytest.mark.case("I43")
async def test_metrics_are_what_a_prometheus_server_reads(folder: Path) -> None:
    async with place(folder) as one:
        await one.complete(prompt="a", max_tokens=5)
        answer = await one.client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        families = {family.name: family for family in text_string_to_metric_families(answer.text)}
        assert families["backstay_request_duration_seconds"].type == "histogram"
        ours = [family for name, family in families.items() if name.startswith("backstay_")]
        assert {sample.labels["digest"] for family in ours for sample in family.samples} == {IDENTITY.digest}


@pytest.mark.case("I27")
async def test_a_scanner_adds_no_series(folder: Path) -> None:
    async with place(folder) as one:
        before = {line.rpartition(" ")[0] for line in (await one.client.get("/metrics")).text.splitlines()}
        for number in range(300):
            await one.client.get(f"/scan/{number}", headers={"x-trace-id": f"t{number}"})
            await one.complete(prompt="a", model=f"model-{number}")
        after = {line.rpartition(" ")[0] for line in (await one.client.get("/metrics")).text.splitlines()}
        assert before == after
