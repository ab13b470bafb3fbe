import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx2 as httpx
from backstay_contract.names import Env

from .processes import Server, running

LONG: dict[str, Any] = {"prompt": "a", "max_tokens": 8000, "temperature": 0, "ignore_eos": True}


def short(tokens: int) -> dict[str, Any]:
    return {**LONG, "max_tokens": tokens}


async def started(server: Server) -> None:
    """Returns when something runs."""
    async with httpx.AsyncClient() as client:
        for _ in range(200):
            if "backstay_sequences_running" in (text := (await client.get(f"{server.url}/metrics")).text):
                line = next(line for line in text.splitlines() if line.startswith("backstay_sequences_running{"))
                if float(line.rpartition(" ")[2]) > 0:
                    return
            await asyncio.sleep(0.02)
    raise AssertionError("nothing runs")


async def test_running_work_finishes_and_late_comers_are_served_and_sent_on(folder: Path, tmp_path: Path) -> None:
    with running(tmp_path, "--model", str(folder), **{Env.GRACE_SECONDS: "20"}) as server:
        server.wait_until_ready()
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            work = asyncio.ensure_future(client.post("/v1/completions", json=short(1500)))
            await started(server)
            server.tell()
            await asyncio.sleep(0.2)
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()["error"]["code"]) == (503, "draining")
            assert ready.headers["connection"] == "close"
            late = await client.post("/v1/completions", json=short(3))
            assert late.status_code == 200
            assert late.headers["connection"] == "close"
            assert (await work).json()["usage"]["completion_tokens"] == 1500
        assert server.process.wait(30) == 0
        outcomes = [line["outcome"] for line in server.log() if line["message"] == "request ended"]
        assert outcomes == ["ok"] * 2


async def test_when_the_grace_time_is_over_a_stream_ends_with_an_error_event(folder: Path, tmp_path: Path) -> None:
    with running(tmp_path, "--model", str(folder), **{Env.GRACE_SECONDS: "1"}) as server:
        server.wait_until_ready()
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            stream = asyncio.ensure_future(client.post("/v1/completions", json={**LONG, "stream": True}))
            whole = asyncio.ensure_future(client.post("/v1/completions", json=LONG))
            await started(server)
            server.tell()
            lines = [line for line in (await stream).text.splitlines() if line]
            assert json.loads(lines[-2].removeprefix("data: "))["error"]["code"] == "draining"
            assert lines[-1] == "data: [DONE]"
            assert ((await whole).status_code, (await whole).json()["error"]["code"]) == (503, "draining")
        assert server.process.wait(10) == 0


async def test_new_work_is_refused_once_the_lame_duck_time_is_over(folder: Path, tmp_path: Path) -> None:
    with running(tmp_path, "--model", str(folder), **{Env.GRACE_SECONDS: "6"}) as server:
        server.wait_until_ready()
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            work = asyncio.ensure_future(client.post("/v1/completions", json=LONG))
            await started(server)
            server.tell()
            await asyncio.sleep(2.5)
            late = await client.post("/v1/completions", json=short(3))
            assert (late.status_code, late.json()["error"]["code"]) == (503, "draining")
            assert "retry-after" in late.headers
            await work
        assert server.process.wait(20) == 0


def test_a_second_signal_means_now(folder: Path, tmp_path: Path) -> None:
    with running(tmp_path, "--model", str(folder), **{Env.GRACE_SECONDS: "60"}) as server:
        server.wait_until_ready()
        server.tell()
        time.sleep(0.3)
        assert server.process.poll() is None
        began = time.monotonic()
        server.tell()
        assert server.process.wait(10) == 0
        assert time.monotonic() - began < 3


def test_a_server_that_is_still_loading_can_be_ended(folder: Path, tmp_path: Path) -> None:
    with running(tmp_path, "--model", str(folder), **{Env.GRACE_SECONDS: "0"}) as server:
        server.wait_until_listening()
        server.tell()
        assert server.process.wait(20) == 0
