from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .serving import Place, events, place

MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.fixture
async def here(folder: Path) -> AsyncIterator[Place]:
    async with place(folder) as one:
        yield one


async def test_a_chat_continues_the_prompt_of_its_template(here: Place) -> None:
    chat = (await here.chat(messages=MESSAGES, max_tokens=9)).json()
    written = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    plain = (await here.complete(prompt=written, max_tokens=9)).json()
    assert chat["choices"][0]["message"] == {"role": "assistant", "content": plain["choices"][0]["text"]}
    assert chat["usage"] == plain["usage"]
    assert chat["object"] == "chat.completion"


async def test_a_chat_stream_begins_with_the_role_and_joins_to_the_answer(here: Place) -> None:
    asked = {"messages": MESSAGES, "max_tokens": 30, "temperature": 1.0, "seed": 2}
    whole = (await here.chat(**asked)).json()
    found = events((await here.chat(**asked, stream=True, stream_options={"include_usage": True})).text)
    deltas = [choice["delta"] for event in found for choice in event["choices"]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == whole["choices"][0]["message"]["content"]
    assert deltas[-1] == {}
    assert found[-1]["usage"] == whole["usage"]
    assert {event["object"] for event in found} == {"chat.completion.chunk"}


async def test_without_a_most_a_chat_goes_on_to_the_end_of_the_context(here: Place) -> None:
    usage = (await here.chat(messages=MESSAGES)).json()["usage"]
    assert usage["total_tokens"] == 128


async def test_content_parts_are_one_text(here: Place) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}]
    joined = (await here.chat(messages=parts, max_tokens=5)).json()
    assert joined["choices"] == (await here.chat(messages=MESSAGES, max_tokens=5)).json()["choices"]


async def test_a_part_that_is_no_text_is_refused_by_name(here: Place) -> None:
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    answer = await here.chat(messages=image)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("messages[0].content")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.case("I17")
async def test_logprobs_of_byte_tokens_have_a_name_and_bytes(here: Place, stream: bool) -> None:
    asked = {"messages": MESSAGES, "max_tokens": 20, "logprobs": True, "top_logprobs": 3}
    answer = await here.chat(**asked, stream=stream)
    if stream:
        choices = [choice for event in events(answer.text) for choice in event["choices"]]
        content = [entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]]
    else:
        content = answer.json()["choices"][0]["logprobs"]["content"]
    assert len(content) == 20
    for entry in content:
        assert len(entry["top_logprobs"]) == 3
        for one in (entry, *entry["top_logprobs"]):
            assert one["token"]
            assert one["logprob"] <= 0
            assert all(0 <= byte < 256 for byte in one["bytes"])
    assert any(entry["token"].startswith("bytes:") for entry in content)


@pytest.mark.case("I15")
async def test_a_template_error_is_the_clients_and_the_next_chat_is_answered(here: Place) -> None:
    before = (await here.chat(messages=MESSAGES, max_tokens=5)).json()["choices"]
    answer = await here.chat(messages=[{"role": "nobody", "content": "Hi"}])
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "template_error"
    assert (await here.chat(messages=MESSAGES, max_tokens=5)).json()["choices"] == before


async def test_a_chat_that_is_too_long_says_most_and_given(here: Place) -> None:
    answer = await here.chat(messages=[{"role": "user", "content": "x" * 200}])
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", "messages")
    assert "128" in error["message"]
    assert "219 tokens" in error["message"]


async def test_tools_and_forms_that_are_not_supported_are_refused(here: Place) -> None:
    for more in ({"tools": [{"type": "function"}]}, {"response_format": {"type": "json_object"}}):
        answer = await here.chat(messages=MESSAGES, **more)
        assert answer.status_code == 400
        assert "not supported" in answer.json()["error"]["message"]
