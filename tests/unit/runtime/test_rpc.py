"""The gRPC port beside the HTTP port, on the same application."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from backstay_contract.mode import Mode
from backstay_runtime.rpc import inference_pb2 as pb
from backstay_runtime.rpc import messages
from backstay_runtime.rpc.server import SERVICE, RpcServer
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from .serving import IDENTITY, Place, place

REPLIES: dict[str, Any] = {
    "Complete": pb.CompletionReply,
    "CompleteStream": pb.CompletionReply,
    "Chat": pb.ChatReply,
    "ChatStream": pb.ChatReply,
}


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()


class Client:
    """Calls by name."""

    def __init__(self, port: int) -> None:
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")

    def unary(self, name: str) -> Any:
        return self.channel.unary_unary(f"/{SERVICE}/{name}", _bytes, response_deserializer=REPLIES[name].FromString)

    def stream(self, name: str) -> Any:
        return self.channel.unary_stream(f"/{SERVICE}/{name}", _bytes, response_deserializer=REPLIES[name].FromString)


@asynccontextmanager
async def both(folder: Path, **settings: Any) -> AsyncIterator[tuple[Place, Client]]:
    async with place(folder, **settings) as one:
        server = RpcServer(one.service, one.app, "127.0.0.1:0")
        await server.start()
        client = Client(server.port)
        try:
            yield one, client
        finally:
            await client.channel.close()
            await server.stop(0)


def slowed(here: Place) -> asyncio.Event:
    """A step takes 20 ms from now on, or all is written before a test can do anything. Set at the first step."""
    began = asyncio.Event()
    run, loop = here.engine._runner.run, asyncio.get_running_loop()

    def slowly(slices: Any) -> Any:
        loop.call_soon_threadsafe(began.set)
        time.sleep(0.02)
        return run(slices)

    here.engine._runner.run = slowly  # type: ignore[method-assign]
    return began


def asked(text: str = "Good day", **options: Any) -> pb.CompletionRequest:
    return pb.CompletionRequest(prompt=text, options=pb.Options(**{"max_tokens": 8, "temperature": 0, **options}))


async def test_a_call_answers_what_the_http_endpoint_answers(folder: Path) -> None:
    async with both(folder) as (here, client):
        http = (await here.complete(prompt="Good day", max_tokens=8, temperature=0, n=2, seed=3)).json()
        call = client.unary("Complete")(asked(n=2, seed=3))
        reply = await call
        assert [one.text for one in reply.choices] == [one["text"] for one in http["choices"]]
        assert [one.finish_reason for one in reply.choices] == ["length", "length"]
        assert reply.usage.completion_tokens == http["usage"]["completion_tokens"] == 16
        trailers = dict(await call.trailing_metadata())
        assert trailers["x-model-digest"] == IDENTITY.digest
        assert here.value("backstay_requests_finished_total", outcome="ok") == 2


async def test_token_ids_are_a_prompt_too(folder: Path) -> None:
    async with both(folder) as (_, client):
        ids = pb.CompletionRequest(
            tokens=pb.Tokens(ids=list(b"Good day")), options=pb.Options(max_tokens=8, temperature=0)
        )
        assert await client.unary("Complete")(ids) is not None
        first, second = [await client.unary("Complete")(one) for one in (ids, asked())]
        assert first.choices[0].text == second.choices[0].text


async def test_a_stream_of_replies_joins_to_the_answer_and_ends_with_the_usage(folder: Path) -> None:
    async with both(folder) as (_, client):
        whole = await client.unary("Complete")(asked(max_tokens=30))
        replies = [one async for one in client.stream("CompleteStream")(asked(max_tokens=30))]
        assert "".join(choice.text for one in replies for choice in one.choices) == whole.choices[0].text
        assert replies[-1].usage.completion_tokens == 30


async def test_a_chat_has_its_answer_and_its_stream(folder: Path) -> None:
    async with both(folder) as (_, client):
        request = pb.ChatRequest(
            messages=[pb.Message(role="user", content="Hello")], options=pb.Options(max_tokens=8, temperature=0)
        )
        whole = await client.unary("Chat")(request)
        assert whole.choices[0].message.role == "assistant"
        replies = [one async for one in client.stream("ChatStream")(request)]
        joined = "".join(choice.message.content for one in replies for choice in one.choices)
        assert joined == whole.choices[0].message.content


async def answered(client: Client, name: str, request: pb.CompletionRequest) -> None:
    if name == "Complete":
        await client.unary(name)(request)
    else:
        async for _ in client.stream(name)(request):
            pass


@pytest.mark.parametrize(
    ("request_", "code", "named"),
    [
        (pb.CompletionRequest(options=pb.Options(max_tokens=1)), grpc.StatusCode.INVALID_ARGUMENT, "prompt"),
        (asked(n=9), grpc.StatusCode.INVALID_ARGUMENT, "n:"),
        (asked(temperature=float("inf")), grpc.StatusCode.INVALID_ARGUMENT, "Infinity"),
        (asked("a" * 5000), grpc.StatusCode.INVALID_ARGUMENT, "context holds at most"),
        (pb.CompletionRequest(prompt="a", model="other"), grpc.StatusCode.NOT_FOUND, "'other' is not served"),
    ],
)
@pytest.mark.parametrize("name", ["Complete", "CompleteStream"])
async def test_what_is_wrong_is_named_with_its_code(
    folder: Path, request_: pb.CompletionRequest, code: grpc.StatusCode, named: str, name: str
) -> None:
    async with both(folder) as (_, client):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await answered(client, name, request_)
        assert refused.value.code() is code
        assert named in (refused.value.details() or "")


async def test_a_full_queue_is_unavailable_and_says_when_to_come_back(folder: Path) -> None:
    async with both(folder, max_sequences=1, queue_length=0) as (here, client):
        began = slowed(here)
        running = client.unary("Complete")(asked(max_tokens=120, ignore_eos=True))
        await began.wait()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.unary("Complete")(asked())
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        trailers = dict(refused.value.trailing_metadata())
        assert trailers["error-code"] == "queue_full"
        assert int(trailers["retry-after"]) >= 1
        await running


async def test_the_calls_own_deadline_ends_the_work(folder: Path) -> None:
    async with both(folder) as (here, client):
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await client.unary("Complete")(asked(max_tokens=120, ignore_eos=True), timeout=0.02)
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await here.quiet()
        assert here.engine.scheduler.pool.used == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_who_cancels_frees_the_cache(folder: Path, stream: bool) -> None:
    async with both(folder) as (here, client):
        began = slowed(here)
        request = asked(max_tokens=120, ignore_eos=True)
        call = client.stream("CompleteStream")(request) if stream else client.unary("Complete")(request)
        await began.wait()
        call.cancel()
        await here.quiet()
        assert here.engine.scheduler.pool.used == 0
        assert here.value("backstay_requests_finished_total", outcome="cancelled") == 1


async def test_on_standby_clients_are_sent_away_and_a_stream_that_runs_is_finished(folder: Path) -> None:
    async with both(folder) as (here, client):
        stream = client.stream("CompleteStream")(asked(max_tokens=100, ignore_eos=True))
        first = await stream.read()
        assert first.choices
        left = asyncio.ensure_future(_left(client.channel))
        here.service.set_mode(Mode.STANDBY)
        usage = 0
        while (reply := await stream.read()) is not grpc.aio.EOF:
            usage = reply.usage.completion_tokens
        assert usage == 100
        await asyncio.wait_for(left, 5)
        assert (await client.unary("Complete")(asked())).choices  # whoever connects again is answered


async def _left(channel: grpc.aio.Channel) -> None:
    """Returns when the channel's connection has ended."""
    while (state := channel.get_state()) is grpc.ChannelConnectivity.READY:
        await channel.wait_for_state_change(state)


async def test_a_port_that_is_taken_is_an_error(folder: Path) -> None:
    async with place(folder) as one:
        first = RpcServer(one.service, one.app, "127.0.0.1:0")
        await first.start()
        with pytest.raises(OSError, match=str(first.port)):
            await RpcServer(one.service, one.app, f"127.0.0.1:{first.port}").start()
        await first.stop(0)


options = st.fixed_dictionaries(
    {},
    optional={
        "max_tokens": st.integers(0, 2**32 - 1),
        "temperature": st.floats(allow_nan=False),
        "seed": st.integers(-(2**63), 2**63 - 1),
        "stop": st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1),
        "n": st.integers(0, 100),
        "logit_bias": st.dictionaries(st.text("0123456789", min_size=1), st.floats(-100, 100), min_size=1),
        "priority": st.sampled_from(["high", "low", "x"]),
        "ignore_eos": st.booleans(),
    },
)


@given(options)
def test_the_body_says_what_the_message_says_and_nothing_else(given_: dict[str, Any]) -> None:
    request = pb.CompletionRequest(prompt="a", options=pb.Options(**given_))
    assert messages.completion_body(request) == {"prompt": "a", **given_}


@pytest.mark.parametrize("status", [400, 401, 404, 413, 429, 431, 499, 500, 503, 504, 418])
def test_every_http_status_has_a_code_of_its_own_or_is_internal(status: int) -> None:
    code = messages.code_of(status)
    assert code is not grpc.StatusCode.OK
    assert (code is grpc.StatusCode.INTERNAL) == (status in (500, 418))
