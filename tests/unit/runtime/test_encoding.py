"""The encoder's thread and its endpoints, on a tiny encoder."""

import asyncio
import base64
import contextlib
import struct
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest
import torch
from backstay_contract.names import RuntimeMetric
from backstay_runtime import assemble_encoder
from backstay_runtime.api.app import create_app
from backstay_runtime.api.service import Service
from backstay_runtime.encoding import EncoderDeadError, EncoderFullError, EncoderLoop, NotFiniteError
from backstay_runtime.schedule.packing import Packer
from backstay_runtime.telemetry.metrics import Metrics

from . import tiny_bert
from .serving import IDENTITY, place


@contextlib.asynccontextmanager
async def encoder_place(
    folder: Path, config: dict[str, Any] = tiny_bert.CONFIG
) -> AsyncIterator[tuple[httpx.AsyncClient, Service]]:
    """An application with an encoder; its thread ends with the block."""
    service = Service(IDENTITY, Metrics(IDENTITY, {}, "0.0.1"), runtime_version="0.0.1")
    model = await asyncio.to_thread(assemble_encoder.load, tiny_bert.write(folder, config), max_model_len=None)
    service.encoder = assemble_encoder.start(model, service.metrics, queue_length=64)
    transport = httpx.ASGITransport(app=create_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://tiny", timeout=30) as client:
        yield client, service
    assert service.encoder.loop.stop(5)


def loop_of(encode: Any, queue_length: int = 16) -> EncoderLoop:
    one = EncoderLoop(
        encode,
        Packer(budget=64, most_texts=8, most_wait=0.0),
        queue_length=queue_length,
        told=lambda _texts, _waited: None,
    )
    one.start()
    return one


def lengths(texts: Sequence[Sequence[int]]) -> torch.Tensor:
    """An encoder whose answer is a text's length."""
    return torch.tensor([[float(len(text))] for text in texts])


async def test_vectors_come_over_http_in_the_order_of_the_texts(tmp_path: Path) -> None:
    texts = ["good", "the cat is a good day", "the dog"]
    async with encoder_place(tmp_path) as (client, _):
        answer = (await client.post("/v1/embeddings", json={"model": "tiny", "input": texts})).json()
        alone = (await client.post("/v1/embeddings", json={"input": texts[1]})).json()
    ids = [[2, 5, 3], [2, 9, 7, 10, 11, 5, 12, 3], [2, 9, 8, 3]]
    for one, data in zip(ids, answer["data"], strict=True):
        assert np.abs(np.array(data["embedding"]) - tiny_bert.reference_vector(one, tiny_bert.tensors())).max() < 1e-5
    assert [data["index"] for data in answer["data"]] == [0, 1, 2]
    assert np.allclose(alone["data"][0]["embedding"], answer["data"][1]["embedding"], atol=1e-6)
    assert answer["usage"] == {"prompt_tokens": 15, "total_tokens": 15}


async def test_vectors_come_as_base64_too(tmp_path: Path) -> None:
    async with encoder_place(tmp_path) as (client, _):
        plain = (await client.post("/v1/embeddings", json={"input": "good day"})).json()
        packed = (await client.post("/v1/embeddings", json={"input": "good day", "encoding_format": "base64"})).json()
    numbers = struct.unpack("<24f", base64.b64decode(packed["data"][0]["embedding"]))
    assert np.allclose(numbers, plain["data"][0]["embedding"], atol=1e-6)


async def test_token_ids_are_taken_as_texts_are(tmp_path: Path) -> None:
    async with encoder_place(tmp_path) as (client, _):
        texts = (await client.post("/v1/embeddings", json={"input": ["good day"]})).json()["data"]
        for ids in ([2, 5, 12, 3], [[2, 5, 12, 3]]):
            found = (await client.post("/v1/embeddings", json={"input": ids})).json()["data"]
            assert np.allclose(found[0]["embedding"], texts[0]["embedding"], atol=1e-6)


async def test_classes_come_with_their_names_likeliest_first(tmp_path: Path) -> None:
    async with encoder_place(tmp_path, tiny_bert.CLASSIFIER) as (client, _):
        answer = (await client.post("/classify", json={"input": "not a good day"})).json()["data"][0]
        two = (await client.post("/classify", json={"input": "not a good day", "top_k": 2})).json()["data"][0]
    wanted = tiny_bert.reference_classes([2, 13, 11, 5, 12, 3], tiny_bert.tensors(tiny_bert.CLASSIFIER))
    best = int(wanted.argmax())
    assert answer["label"] == ["calm", "angry", "glad"][best]
    assert answer["score"] == pytest.approx(wanted[best], abs=1e-5)
    assert sum(answer["scores"].values()) == pytest.approx(1.0)
    assert list(two["scores"]) == list(answer["scores"])[:2]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"input": ""}, "input[0]: it is empty"),
        ({"input": []}, "must not be empty"),
        ({"input": ["good", "  \n"]}, "input[1]: it is empty, or white space only"),
        ({"input": ["good"] * 33}, "33 texts are more than the 32 allowed"),
        ({"input": [2, 99, 3]}, "99 is no token id; they run from 0 to 13"),
        ({"input": [[]]}, "input[0]"),
        ({"input": [5] * 17}, "it has 17 tokens, and this model reads at most 16"),
        ({}, "input"),
        ({"input": "good", "dimensions": 8}, "this model's vectors have 24 numbers"),
        ({"input": "good", "encoding_format": "hex"}, "encoding_format"),
    ],
)
async def test_a_wrong_request_is_refused_by_name(tmp_path: Path, body: dict[str, Any], said: str) -> None:
    async with encoder_place(tmp_path) as (client, _):
        answer = await client.post("/v1/embeddings", json=body)
        assert answer.status_code == 400
        assert said in answer.json()["error"]["message"]
        assert (await client.post("/v1/embeddings", json={"input": "good"})).status_code == 200


async def test_an_overlong_text_is_cut_at_the_models_longest(tmp_path: Path) -> None:
    async with encoder_place(tmp_path) as (client, _):
        answer = (await client.post("/v1/embeddings", json={"input": "good " * 40})).json()
    assert answer["usage"]["prompt_tokens"] == 16


async def test_a_model_says_what_else_it_can_be_asked(tmp_path: Path, folder: Path) -> None:
    async with encoder_place(tmp_path / "embedder") as (client, _):
        answers = [await client.post("/classify", json={"input": "good"})]
        answers.append(await client.post("/v1/completions", json={"prompt": "good"}))
    async with place(folder) as one:
        answers.append(await one.client.post("/v1/embeddings", json={"input": "good"}))
    for answer, said in zip(answers, ("ask /v1/embeddings", "generates no text", "generates text"), strict=True):
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "wrong_task"
        assert said in answer.json()["error"]["message"]


async def test_an_encoder_is_ready_after_it_has_encoded(tmp_path: Path) -> None:
    async with encoder_place(tmp_path) as (client, service):
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["digest"]) == (200, IDENTITY.digest)
        assert (await client.get("/healthz")).status_code == 200
        card = (await client.get("/v1/models")).json()["data"][0]
        assert (card["id"], card["max_model_len"]) == ("tiny", 16)
        assert service.encoder is not None
        service.encoder.loop.dead = "for the test"
        assert (await client.get("/healthz")).status_code == 503


async def test_requests_are_counted_and_timed(tmp_path: Path) -> None:
    async with encoder_place(tmp_path) as (client, service):
        for _ in range(3):
            await client.post("/v1/embeddings", json={"input": ["good", "day"]})
        who = {"model": IDENTITY.name, "version": IDENTITY.version, "digest": IDENTITY.digest}

        def value(name: str) -> float | None:
            return service.metrics.registry.get_sample_value(name, who)

        assert value(f"{RuntimeMetric.REQUEST_SECONDS}_count") == 3.0
        assert value(f"{RuntimeMetric.QUEUE_SECONDS}_count") == 3.0
        assert value(f"{RuntimeMetric.BATCH_SIZE}_sum") == 6.0
        assert value(f"{RuntimeMetric.TOKENS_IN}") == 18.0
    assert service.in_flight == 0


async def test_texts_that_wait_together_are_computed_together() -> None:
    gate, sizes = asyncio.Event(), []
    running = asyncio.get_running_loop()

    def slow(texts: Sequence[Sequence[int]]) -> torch.Tensor:
        sizes.append(len(texts))
        if len(sizes) == 1:
            asyncio.run_coroutine_threadsafe(gate.wait(), running).result(5)
        return lengths(texts)

    one = loop_of(slow)
    first = asyncio.ensure_future(one.encode([[1]]))
    await asyncio.sleep(0.05)
    others = [asyncio.ensure_future(one.encode([[1] * size])) for size in (3, 1, 2)]
    await asyncio.sleep(0.05)
    gate.set()
    assert [await task for task in (first, *others)] == [[[1.0]], [[3.0]], [[1.0]], [[2.0]]]
    assert sizes == [1, 3]
    assert one.stop(5)


async def test_more_texts_than_the_queue_holds_are_refused_with_a_time() -> None:
    one = loop_of(lengths, queue_length=4)
    with pytest.raises(EncoderFullError) as refused:
        await one.encode([[1]] * 5)
    assert refused.value.retry_after >= 1
    assert await one.encode([[1, 2]]) == [[2.0]]
    assert one.stop(5)


async def test_a_cancelled_request_leaves_nothing_behind() -> None:
    gate = asyncio.Event()
    running = asyncio.get_running_loop()

    def held(texts: Sequence[Sequence[int]]) -> torch.Tensor:
        asyncio.run_coroutine_threadsafe(gate.wait(), running).result(5)
        return lengths(texts)

    one = loop_of(held)
    first = asyncio.ensure_future(one.encode([[1]]))
    await asyncio.sleep(0.05)
    second = asyncio.ensure_future(one.encode([[1]] * 3))
    await asyncio.sleep(0.02)
    assert one.waiting == 3
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert one.waiting == 0
    gate.set()
    assert await first == [[1.0]]
    assert not one._futures
    assert one.stop(5)


async def test_numbers_that_are_not_finite_fail_their_own_text_only() -> None:
    def broken(texts: Sequence[Sequence[int]]) -> torch.Tensor:
        return torch.tensor([[float("nan") if text[0] == 9 else 1.0] for text in texts])

    one = loop_of(broken)
    results = await asyncio.gather(one.encode([[9]]), one.encode([[1]]), return_exceptions=True)
    assert isinstance(results[0], NotFiniteError)
    assert results[1] == [[1.0]]
    assert one.stop(5)


async def test_a_batch_that_fails_fails_its_requests_and_three_in_a_row_are_the_end() -> None:
    def failing(_texts: Sequence[Sequence[int]]) -> torch.Tensor:
        raise RuntimeError("the device is gone")

    one = loop_of(failing)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="the device is gone"):
            await one.encode([[1]])
    await asyncio.sleep(0.05)
    assert one.dead is not None
    with pytest.raises(EncoderDeadError):
        await one.encode([[1]])
