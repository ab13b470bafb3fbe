"""The load's program against a real HTTP server on loopback: what is lost is told, what is kept is used again."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.e2e.story.client import load
from tests.e2e.story.client.load import Pool, Target

pytestmark = pytest.mark.enable_socket
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nx-model-digest: sha256:aa\r\ncontent-length: 2\r\n\r\n{}"


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[Target]:
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await handler(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Target("127.0.0.1", port, "m", 4, timeout_s=1.0)
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


async def request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(load.head(b"HTTP/1.1 200 OK\r\n" + head.partition(b"\r\n")[2])[1]["content-length"])
    return head + await reader.readexactly(length)


def answering(reply: bytes, times: int = 1_000) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(times):
            try:
                await request(reader)
            except asyncio.IncompleteReadError:
                break
            writer.write(reply)
        writer.close()

    return handle


@asynccontextmanager
async def kept(target: Target) -> AsyncIterator[Pool]:
    pool = Pool(target, 1)
    try:
        yield pool
    finally:
        await pool.close()


async def ask(target: Target, pool: Pool, kind: str = "kept") -> dict[str, Any]:
    told: list[dict[str, Any]] = []
    path, message = next(load.questions(target, kind))
    await load.ask(target, pool, path, message, told.append)
    (line,) = told
    return line


async def test_a_good_answer_is_told_with_its_model_and_time() -> None:
    async with served(answering(OK)) as target:
        line = await ask(target, Pool(target, 0))
    assert (line["status"], line["digest"], line["error"]) == (200, "sha256:aa", None)
    assert 0 < line["ms"] < 1000


async def test_a_kept_connection_is_used_again() -> None:
    async with served(answering(OK)) as target, kept(target) as pool:
        lines = [await ask(target, pool), await ask(target, pool)]
    assert [line["used"] for line in lines] == [0, 1]
    assert lines[0]["connection"] == lines[1]["connection"]


async def test_a_connection_that_the_server_ends_with_its_answer_is_not_used_again() -> None:
    reply = OK.replace(b"content-length", b"connection: close\r\ncontent-length")
    async with served(answering(reply)) as target, kept(target) as pool:
        lines = [await ask(target, pool), await ask(target, pool)]
    assert [line["used"] for line in lines] == [0, 0]


async def test_a_connection_that_ended_while_it_was_idle_is_not_used_again() -> None:
    async with served(answering(OK, times=1)) as target, kept(target) as pool:
        first = await ask(target, pool)
        await asyncio.sleep(0.05)
        second = await ask(target, pool)
    assert (first["error"], second["error"]) == (None, None)


async def test_a_connection_that_breaks_under_a_request_is_a_lost_request() -> None:
    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.close()

    async with served(breaks) as target:
        line = await ask(target, Pool(target, 0))
    assert line["status"] is None
    assert "IncompleteReadError" in line["error"]


async def test_a_refused_connection_is_a_lost_request() -> None:
    async with served(answering(OK)) as target:
        pass
    line = await ask(target, Pool(target, 0))
    assert line["status"] is None
    assert line["error"].startswith("ConnectionRefusedError")


async def test_an_answer_that_does_not_come_in_time_is_a_lost_request() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        await asyncio.sleep(5)

    async with served(silent) as target:
        line = await ask(target._replace(timeout_s=0.1), Pool(target, 0))
    assert line["error"].startswith("TimeoutError")


async def test_an_error_is_told_with_its_text_and_its_model() -> None:
    reply = b"HTTP/1.1 503 Busy\r\nx-model-digest: sha256:bb\r\ncontent-length: 4\r\n\r\nfull"
    async with served(answering(reply)) as target:
        line = await ask(target, Pool(target, 0))
    assert (line["status"], line["digest"], line["error"]) == (503, "sha256:bb", "full")


async def test_a_chunked_answer_is_read_to_its_end() -> None:
    reply = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
    async with served(answering(reply)) as target, kept(target) as pool:
        lines = [await ask(target, pool), await ask(target, pool)]
    assert [line["used"] for line in lines] == [0, 1]


async def test_requests_are_sent_on_time_however_slow_the_answers_are(capsys: pytest.CaptureFixture[str]) -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        await asyncio.sleep(0.5)
        writer.write(OK)
        writer.close()

    async with served(slow) as target:
        task = asyncio.create_task(load.run(target, "new", rate=20, connections=0))
        await asyncio.sleep(0.95)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) >= 5
    sent = sorted(line["sent"] for line in lines)
    assert sent[4] - sent[0] < 0.45, "five requests were under way before the first was answered"


def test_chats_and_completions_take_turns() -> None:
    target = Target("h", 80, "m", 4, 1.0)
    asked = load.questions(target, "new")
    paths = [next(asked)[0] for _ in range(4)]
    assert paths == ["/v1/chat/completions", "/v1/completions"] * 2


def test_what_is_no_http_is_refused() -> None:
    with pytest.raises(ValueError, match="not HTTP"):
        load.head(b"SSH-2.0-OpenSSH 1 2\r\n\r\n")
