from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from . import tiny
from .machinery import alone, prompt
from .serving import IDENTITY, MAX_MODEL_LEN, Place, events, place


@pytest.fixture
async def here(folder: Path) -> AsyncIterator[Place]:
    async with place(folder) as one:
        yield one


async def test_an_answer_has_the_text_its_end_and_the_usage(here: Place, folder: Path) -> None:
    read = prompt(0, 9)
    body = (await here.complete(prompt=read, max_tokens=12)).json()
    assert body["object"] == "text_completion"
    assert body["model"] == "tiny"
    assert body["choices"] == [
        {"index": 0, "text": bytes_text(alone(folder, read)), "logprobs": None, "finish_reason": "length"}
    ]
    assert body["usage"] == {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}


def bytes_text(ids: list[int]) -> str:
    return bytes(id_ for id_ in ids if id_ < 256).decode("utf-8", "replace")


async def test_every_answer_names_the_models_digest(here: Place) -> None:
    for path in ("/v1/models", "/healthz", "/nowhere", "/metrics"):
        assert (await here.client.get(path)).headers["x-model-digest"] == IDENTITY.digest


async def test_a_text_and_its_token_ids_are_the_same_prompt(here: Place) -> None:
    text = await here.complete(prompt="Good day", max_tokens=8)
    ids = await here.complete(prompt=list(b"Good day"), max_tokens=8)
    assert text.json()["choices"] == ids.json()["choices"]
    assert text.json()["usage"] == ids.json()["usage"]


async def test_several_prompts_with_several_choices_each_come_in_order(here: Place) -> None:
    body = (await here.complete(prompt=["one", "two"], n=2, max_tokens=5)).json()
    single = [(await here.complete(prompt=text, max_tokens=5)).json()["choices"][0]["text"] for text in ("one", "two")]
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert [choice["text"] for choice in body["choices"]] == [single[0], single[0], single[1], single[1]]
    assert body["usage"] == {"prompt_tokens": 6, "completion_tokens": 20, "total_tokens": 26}


async def test_lists_of_token_ids_are_several_prompts(here: Place) -> None:
    body = (await here.complete(prompt=[[1, 2], [3]], max_tokens=2)).json()
    assert len(body["choices"]) == 2


async def test_choices_with_one_seed_differ_and_come_again(here: Place) -> None:
    asked = {"prompt": "x", "n": 3, "seed": 5, "temperature": 1.5, "max_tokens": 12}
    first, again = [(await here.complete(**asked)).json()["choices"] for _ in range(2)]
    assert first == again
    assert len({choice["text"] for choice in first}) == 3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.case("I1", "I3")
async def test_a_stream_joins_to_the_answer(here: Place, seed: int) -> None:
    asked = {"prompt": prompt(seed, 5), "max_tokens": 40, "seed": seed, "temperature": 1.0, "n": 2}
    whole = (await here.complete(**asked)).json()
    answer = await here.complete(**asked, stream=True, stream_options={"include_usage": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = events(answer.text)
    for index in range(2):
        mine = [choice for event in found for choice in event["choices"] if choice["index"] == index]
        assert "".join(choice["text"] for choice in mine) == whole["choices"][index]["text"]
        assert [choice["finish_reason"] for choice in mine if choice["finish_reason"]] == ["length"]
    assert found[-1]["choices"] == []
    assert found[-1]["usage"] == whole["usage"]


async def stop_cases(here: Place) -> tuple[str, str]:
    """A text, and a stop string that stands in it across several tokens."""
    text = (await here.complete(prompt="stop", max_tokens=40, temperature=1.0, seed=3)).json()["choices"][0]["text"]
    return text, text[12:15]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("many", [1, 2])
@pytest.mark.case("I1", "I3")
async def test_a_stop_string_ends_the_text_before_it(here: Place, stream: bool, many: int) -> None:
    text, stop = await stop_cases(here)
    asked: dict[str, Any] = {"prompt": "stop", "max_tokens": 40, "temperature": 1.0, "seed": 3, "n": many, "stop": stop}
    answer = await here.complete(**asked, stream=stream)
    if stream:
        choices = [choice for event in events(answer.text) for choice in event["choices"] if choice["index"] == 0]
        found, finish = "".join(choice["text"] for choice in choices), choices[-1]["finish_reason"]
    else:
        choice = answer.json()["choices"][0]
        found, finish = choice["text"], choice["finish_reason"]
    assert found == text[: text.index(stop)]
    assert finish == "stop"
    await here.quiet()


async def test_tokens_after_a_stop_string_are_not_counted(here: Place) -> None:
    _, stop = await stop_cases(here)
    asked = {"prompt": "stop", "max_tokens": 40, "temperature": 1.0, "seed": 3}
    usage = (await here.complete(**asked, stop=[stop, "never seen"])).json()["usage"]
    assert usage["completion_tokens"] < 40


@pytest.mark.case("I45")
async def test_a_text_ends_at_the_end_of_the_context_with_length(here: Place) -> None:
    body = (await here.complete(prompt=prompt(0, MAX_MODEL_LEN - 5), max_tokens=50)).json()
    assert body["usage"]["completion_tokens"] == 5
    assert body["choices"][0]["finish_reason"] == "length"


async def test_logprobs_have_one_item_a_token_in_each_list(here: Place) -> None:
    body = (await here.complete(prompt="abc", max_tokens=6, logprobs=4)).json()
    logprobs = body["choices"][0]["logprobs"]
    assert [len(logprobs[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")] == [6] * 4
    for token, value, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True):
        assert top[token] == value == max(top.values())  # greedy
        assert len(top) == 4
    assert logprobs["text_offset"][0] == 0


async def test_an_echo_begins_with_the_prompt_and_its_logprobs(here: Place) -> None:
    body = (await here.complete(prompt="abc", max_tokens=2, echo=True, logprobs=1)).json()
    choice = body["choices"][0]
    assert choice["text"].startswith("abc")
    assert choice["logprobs"]["tokens"][:3] == ["a", "b", "c"]
    assert choice["logprobs"]["token_logprobs"][0] is None
    assert choice["logprobs"]["top_logprobs"][0] is None
    assert all(value < 0 for value in choice["logprobs"]["token_logprobs"][1:])
    assert choice["logprobs"]["text_offset"][:4] == [0, 1, 2, 3]
    assert len(choice["logprobs"]["token_logprobs"]) == 5


async def test_an_echo_of_nothing_but_the_prompt_generates_nothing(here: Place) -> None:
    body = (await here.complete(prompt=[97, 98], max_tokens=0, echo=True, logprobs=0)).json()
    assert body["choices"][0]["text"] == "ab"
    assert len(body["choices"][0]["logprobs"]["token_logprobs"]) == 2
    assert body["usage"] == {"prompt_tokens": 2, "completion_tokens": 0, "total_tokens": 2}


async def test_an_echo_can_be_streamed(here: Place) -> None:
    whole = (await here.complete(prompt="abc", max_tokens=6, echo=True, logprobs=1)).json()["choices"][0]
    found = events((await here.complete(prompt="abc", max_tokens=6, echo=True, logprobs=1, stream=True)).text)
    choices = [choice for event in found for choice in event["choices"]]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    joined = [value for choice in choices for value in choice["logprobs"]["token_logprobs"]]
    assert joined == pytest.approx(whole["logprobs"]["token_logprobs"])


@pytest.mark.case("I45")
async def test_an_end_token_ends_the_text_and_is_not_part_of_it(here: Place) -> None:
    asked = {"prompt": "abc", "max_tokens": 100, "temperature": 3.0, "seed": 1, "ignore_eos": False, "logprobs": 1}
    choice = (await here.complete(**asked)).json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert choice["logprobs"]["tokens"][-1] == "<|im_end|>"
    assert "<|im_end|>" not in choice["text"]


async def test_tokenize_says_what_a_prompt_costs(here: Place) -> None:
    found = (await here.client.post("/tokenize", json={"prompt": "ab<|im_end|>"})).json()
    assert found == {"tokens": [97, 98, tiny.END], "count": 3, "max_model_len": MAX_MODEL_LEN}
    chat = (await here.client.post("/tokenize", json={"messages": [{"role": "user", "content": "Hi"}]})).json()
    assert chat["tokens"][0] == tiny.START


async def test_the_models_list_names_the_one_model(here: Place) -> None:
    card = (await here.client.get("/v1/models")).json()["data"][0]
    assert (card["id"], card["version"], card["digest"]) == ("tiny", IDENTITY.version, IDENTITY.digest)
    assert (await here.client.get("/v1/models/tiny")).json() == card
    assert (await here.client.get("/v1/models/other")).status_code == 404


async def test_the_version_names_runtime_and_model(here: Place) -> None:
    found = (await here.client.get("/version")).json()
    assert found == {"version": "0.0.1", "model": "tiny", "modelVersion": "1.2.0", "digest": IDENTITY.digest}
