"""Clients that others wrote, unmodified, against the real server process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import openai
import pytest
import schemathesis
from backstay_contract.names import Env
from hypothesis import HealthCheck, given, settings
from openai.types.chat import ChatCompletionMessageParam
from schemathesis import Case, CheckContext, GenerationMode, Response
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.unit.runtime import tiny_bert

from .processes import Server, running


def no_fault_of_ours(_: CheckContext, response: Response, case: "Case[Any]") -> bool | None:
    """503 and 504 are answers: a queue may be full, and a request may ask for its answer in no time."""
    if response.status_code in (500, 502):
        raise AssertionError(f"{response.status_code} to {case.as_curl_command()}: {response.text}")
    return None


CASES = 40
"""Requests that schemathesis makes up for each operation."""
CHECKS = [no_fault_of_ours, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_the_openai_client_completes_a_text(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="tiny", prompt="Good day", max_tokens=8, temperature=0, logprobs=2)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].logprobs is not None
    assert len(answer.choices[0].logprobs.tokens or []) == 8


def test_the_openai_client_chats_whole_and_as_a_stream(client: openai.OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]
    whole = client.chat.completions.create(model="tiny", messages=messages, max_tokens=12, temperature=0)
    chunks = client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=12, temperature=0, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    seen = list(chunks)
    text = "".join(choice.delta.content or "" for chunk in seen for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert seen[-1].usage is not None
    assert seen[-1].usage.completion_tokens == 12


def test_the_openai_client_lists_the_model(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"


def test_the_openai_client_sees_its_own_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="'other' is not served"):
        client.completions.create(model="other", prompt="a")
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="tiny", prompt="a", temperature=-1)
    assert refused.value.param == "temperature"


@pytest.fixture(scope="module")
def brief(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose context is short, so that no answer takes long."""
    with running(tmp_path_factory.mktemp("brief"), "--model", str(folder), **{Env.MAX_MODEL_LEN: "64"}) as one:
        one.wait_until_ready()
        yield one


@pytest.fixture(scope="module", params=["embeddings", "classes"])
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of an encoder, with and without a head that classifies."""
    config = tiny_bert.CLASSIFIER if request.param == "classes" else tiny_bert.CONFIG
    model = tiny_bert.write(tmp_path_factory.mktemp("encoder"), config, tiny_bert.tensors(config))
    with running(tmp_path_factory.mktemp("encoding"), "--model", str(model)) as one:
        one.wait_until_ready()
        yield one


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_the_answers_are_as_our_own_description_says(brief: Server, mode: GenerationMode) -> None:
    """schemathesis makes up requests, right and wrong ones: no 500, no undescribed status, no other form."""
    assert made_up(brief, mode) >= CASES * 3


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_the_answers_of_encoders_are_as_our_own_description_says(encoder: Server, mode: GenerationMode) -> None:
    """A decoder answers none of theirs, and they none of a decoder's: each in the form that is described."""
    assert made_up(encoder, mode) >= CASES * 3


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/completions", {"prompt": "abc"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "abc"}]}),
    ],
)
def test_each_event_of_a_stream_is_as_our_own_description_says(brief: Server, path: str, asked: dict[str, Any]) -> None:
    described = schemathesis.openapi.from_url(f"{brief.url}/openapi.json")
    case = described[path]["POST"].Case(body={"stream": True, "max_tokens": 4, **asked}, media_type="application/json")
    answer = case.call_and_validate(base_url=brief.url, checks=CHECKS)
    assert answer.status_code == 200
    assert answer.headers["content-type"][0].startswith("text/event-stream")


def made_up(server: Server, mode: GenerationMode) -> int:
    """How many requests were made; the server is ready after them."""
    described = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    tried = 0
    for found in described.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and operation.method == "get":
            continue  # nothing about them can be wrong

        @settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        @given(case=operation.as_strategy(generation_mode=mode))
        def as_described(case: "Case[Any]") -> None:
            nonlocal tried
            tried += 1
            case.call_and_validate(base_url=server.url, checks=CHECKS)

        as_described()
    assert httpx.get(f"{server.url}/readyz").status_code == 200
    return tried


def test_the_openai_client_gets_vectors(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tiny_bert.write(tmp_path_factory.mktemp("vectors"))
    with running(tmp_path_factory.mktemp("vectors-server"), "--model", str(folder)) as one:
        one.wait_until_ready()
        client = openai.OpenAI(base_url=f"{one.url}/v1", api_key="none", max_retries=0)
        answer = client.embeddings.create(model=folder.name, input=["good day", "bad cat"])
        assert {"/v1/embeddings", "/classify"} <= set(httpx.get(f"{one.url}/openapi.json").json()["paths"])
    assert [len(one.embedding) for one in answer.data] == [tiny_bert.CONFIG["hidden_size"]] * 2
