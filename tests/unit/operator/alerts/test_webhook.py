"""POST /alerts over a real socket on loopback."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from backstay_operator import server
from backstay_operator.alerts import webhook as webhooks
from backstay_operator.alerts.board import Board
from backstay_operator.alerts.webhook import Webhook
from backstay_operator.queue import Key
from backstay_operator.rollout.observation import Serving

from tests.unit.operator.alerts.build import DIGEST, alert, body

TOKEN = "a-token-of-16-or-more"


class Operator:
    """Its HTTP, and passes that see every alert at once."""

    def __init__(self, folder: Path) -> None:
        self.counted: dict[str, int] = {}
        self.token_file = folder / "token"
        self.token_file.write_text(f"{TOKEN}\n")
        self.webhook = Webhook(self.token_file, self.count)
        self.webhook.board = Board(self.wake)
        self.works = True
        self.url = ""

    def count(self, outcome: str, count: int) -> None:
        self.counted[outcome] = self.counted.get(outcome, 0) + count

    def wake(self, key: Key) -> None:
        board = self.webhook.board
        if self.works and board is not None:
            version, _ = board.firing(key)
            board.passed(key, version, Serving(DIGEST))

    async def post(self, content: bytes, token: str | None = TOKEN) -> httpx2.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}".strip()}
        async with httpx2.AsyncClient(trust_env=False) as client:
            return await client.post(f"{self.url}/alerts", content=content, headers=headers)


@pytest.fixture
async def operator(tmp_path: Path, unused_tcp_port: int) -> AsyncIterator[Operator]:
    one = Operator(tmp_path)
    async with server.serving(server.application(one.webhook.routes()), unused_tcp_port):
        one.url = f"http://127.0.0.1:{unused_tcp_port}"
        yield one


async def test_alerts_are_answered_with_what_was_ignored(operator: Operator) -> None:
    answer = await operator.post(body(alert(), alert(fingerprint="beef", digest=None)))
    assert answer.status_code == 200
    assert answer.json() == {"accepted": 1, "ignored": [{"fingerprint": "beef", "reason": "no label digest"}]}
    assert operator.counted == {"accepted": 1, "ignored": 1}


@pytest.mark.parametrize("token", [None, "", "another-token-of-16", TOKEN[:-1], f"x{TOKEN}"])
async def test_without_the_token_nothing_is_taken(operator: Operator, token: str | None) -> None:
    answer = await operator.post(body(alert()), token)
    assert answer.status_code == 401
    assert "bearer token" in answer.json()["error"]
    assert TOKEN not in answer.text
    assert operator.counted == {"unauthorized": 1}


async def test_a_changed_token_counts_at_once_and_a_missing_one_locks_all_out(operator: Operator) -> None:
    operator.token_file.write_text("another-token-of-16")
    assert (await operator.post(body(alert()))).status_code == 401
    assert (await operator.post(body(alert()), "another-token-of-16")).status_code == 200
    operator.token_file.unlink()
    assert (await operator.post(body(alert()), "")).status_code == 401


async def test_an_empty_token_file_lets_nobody_in(operator: Operator) -> None:
    operator.token_file.write_text("")
    assert (await operator.post(body(alert()), "")).status_code == 401


async def test_a_wrong_request_is_refused_with_the_field(operator: Operator) -> None:
    answer = await operator.post(body(alert(status="pending")))
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("alerts.0.status: ")
    assert operator.counted == {"refused": 1}


async def test_a_request_that_is_too_long_is_not_read(operator: Operator) -> None:
    assert (await operator.post(b" " * (server.MAX_BODY_BYTES + 1))).status_code == 413


async def test_one_that_stands_by_sends_alertmanager_elsewhere(operator: Operator) -> None:
    operator.webhook.board = None
    answer = await operator.post(body(alert()))
    assert (answer.status_code, answer.headers["Connection"]) == (503, "close")
    assert answer.headers["Retry-After"]


async def test_without_a_pass_that_saw_it_alertmanager_has_to_try_again(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "PASS_SECONDS", 0.05)
    operator.works = False
    answer = await asyncio.wait_for(operator.post(body(alert())), 5)
    assert answer.status_code == 503
    assert operator.counted == {}


async def test_probes_need_no_token(operator: Operator) -> None:
    async with httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{operator.url}/healthz")).status_code == 200


async def test_where_no_token_was_given_there_is_no_such_endpoint(unused_tcp_port: int) -> None:
    async with (
        server.serving(server.application(), unused_tcp_port),
        httpx2.AsyncClient(trust_env=False) as client,
    ):
        answer: Any = await client.post(f"http://127.0.0.1:{unused_tcp_port}/alerts")
    assert answer.status_code == 404
