import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2 as httpx
import pytest
from backstay_runtime.api.app import guarded
from backstay_runtime.api.control import create_control

from .serving import IDENTITY, Place, place

TOKEN = "a token that only the operator knows"


@pytest.fixture
async def here(folder: Path) -> AsyncIterator[Place]:
    async with place(folder) as one:
        yield one


def control(one: Place, token: str | None = TOKEN, known: str | None = TOKEN) -> httpx.AsyncClient:
    """A client of the control port."""
    digest = None if known is None else hashlib.sha256(known.encode()).hexdigest()
    app = guarded(create_control(one.service, digest), one.service)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://control", headers=headers)


@pytest.mark.parametrize(("token", "known"), [(None, TOKEN), ("wrong", TOKEN), (TOKEN, None), ("", None)])
async def test_without_its_token_the_control_port_does_nothing(
    here: Place, token: str | None, known: str | None
) -> None:
    async with control(here, token, known) as client:
        assert (await client.get("/control/state")).status_code == 401
        assert (await client.get("/control/evaluation")).status_code == 401
        answer = await client.put("/control/mode", json={"mode": "draining"})
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "unauthorized"
        assert here.service.mode == "normal"


async def test_the_state_says_mode_work_and_model(here: Place) -> None:
    async with control(here) as client:
        assert (await client.get("/control/state")).json() == {
            "mode": "normal",
            "inFlight": 0,
            "digest": IDENTITY.digest,
            "model": "tiny",
            "version": "1.2.0",
            "limits": {},
            "evaluation": {"items": 0, "done": 0, "rounds": 0, "problem": ""},
        }


async def test_the_main_port_has_no_control(here: Place) -> None:
    assert (await here.client.get("/control/state")).status_code == 404


async def test_an_unknown_mode_is_refused_by_name(here: Place) -> None:
    async with control(here) as client:
        answer = await client.put("/control/mode", json={"mode": "asleep"})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "mode")


async def test_degraded_answers_are_cut_at_128_tokens_and_normal_ones_are_not(folder: Path) -> None:
    async with place(folder) as one, control(one) as client:
        # The tiny context of 128 tokens would not show the cap.
        one.service.loaded = replace(one.service.need(), max_model_len=200)
        assert (await client.put("/control/mode", json={"mode": "degraded"})).json()["mode"] == "degraded"
        body = (await one.complete(prompt="a", max_tokens=150)).json()
        assert body["usage"]["completion_tokens"] == 128
        assert body["choices"][0]["finish_reason"] == "length"
        assert (await one.client.get("/readyz")).status_code == 200
        assert one.value("backstay_mode", mode="degraded") == 1
        assert one.value("backstay_mode", mode="normal") == 0
        await client.put("/control/mode", json={"mode": "normal"})
        assert (await one.complete(prompt="a", max_tokens=150)).json()["usage"]["completion_tokens"] == 150


async def test_draining_is_not_ready_answers_what_comes_and_sends_it_elsewhere(here: Place) -> None:
    async with control(here) as client:
        running = asyncio.ensure_future(here.complete(prompt="a", max_tokens=100))
        await asyncio.sleep(0.01)
        state = (await client.put("/control/mode", json={"mode": "draining"})).json()
        assert (state["mode"], state["inFlight"]) == ("draining", 1)
        refused = await here.client.get("/readyz")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        late = await here.complete(prompt="b", max_tokens=2)
        assert late.status_code == 200
        assert late.headers["connection"] == "close"
        stream = await here.complete(prompt="b", max_tokens=2, stream=True)
        assert stream.headers["connection"] == "close"
        assert (await running).status_code == 200
        assert (await client.get("/control/state")).json()["inFlight"] == 0
        assert (await here.client.get("/healthz")).status_code == 200


async def test_on_standby_a_server_is_ready_and_sends_its_clients_elsewhere(here: Place) -> None:
    async with control(here) as client:
        assert (await client.put("/control/mode", json={"mode": "standby"})).json()["mode"] == "standby"
        assert (await here.client.get("/readyz")).status_code == 200
        answer = await here.complete(prompt="b", max_tokens=2)
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")


async def test_a_drained_server_can_be_taken_back(here: Place) -> None:
    async with control(here) as client:
        await client.put("/control/mode", json={"mode": "draining"})
        await client.put("/control/mode", json={"mode": "normal"})
        assert (await here.client.get("/readyz")).status_code == 200
        assert "connection" not in (await here.complete(prompt="b", max_tokens=2)).headers


async def test_a_process_that_ends_stays_draining(here: Place) -> None:
    here.service.terminate()
    async with control(here) as client:
        answer = await client.put("/control/mode", json={"mode": "normal"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "terminating")
        assert (await client.get("/control/state")).json()["mode"] == "draining"
    assert here.value("backstay_mode", mode="draining") == 1
