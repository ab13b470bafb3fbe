"""The questions that a reference file asks of a server, and how each answer is judged."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2 as httpx

from tests.goldens.compare import Answered, DifferentError, Json, Tolerance, check_answer, check_nll, check_top


@dataclass(frozen=True)
class Check:
    """One question; `ask` returns a remark, or raises DifferentError or NotComparableError."""

    name: str
    ask: Callable[[], Awaitable[str]]


class Asker:
    """Asks one server about one reference file."""

    def __init__(self, client: httpx.AsyncClient, golden: Json, tolerance: Tolerance) -> None:
        self._client = client
        self._golden = golden
        self._tolerance = tolerance

    def checks(self) -> Iterator[Check]:
        """Every question of the file."""
        for case in self._golden["cases"]:
            name = case["id"]
            yield Check(f"{name}: greedy, prompt as text", partial(self._greedy, case, case["prompt"]))
            yield Check(f"{name}: greedy, prompt as ids", partial(self._greedy, case, case["prompt_ids"]))
            yield Check(f"{name}: stream", partial(self._stream, case))
            if case.get("messages"):
                yield Check(f"{name}: chat", partial(self._chat, case))
                yield Check(f"{name}: chat stream", partial(self._chat_stream, case))
            for after in case["top5"]:
                yield Check(f"{name}: log-probabilities after {after}", partial(self._top, case, after))
            if case["prompt_nll_mean"] is not None:
                yield Check(f"{name}: NLL", partial(self._nll, case["prompt_ids"], case["prompt_nll_mean"]))
        for text in self._golden["perplexity"]["paragraphs"]:
            yield Check(f"paragraph {text['id']}: NLL", partial(self._nll, text["ids"], text["mean_nll"]))

    async def _post(self, path: str, **body: Any) -> Any:
        answer = await self._client.post(path, json={"temperature": 0, **body})
        if answer.status_code != 200:
            raise DifferentError(f"HTTP {answer.status_code}: {answer.text[:200]}")
        return answer.json()

    async def _greedy(self, case: Json, prompt: object) -> str:
        body = await self._post("/v1/completions", prompt=prompt, max_tokens=len(case["greedy_ids"]))
        choice = body["choices"][0]
        check_answer(case, _answered(choice["text"], choice["finish_reason"], body["usage"]), self._tolerance)
        return ""

    async def _chat(self, case: Json) -> str:
        body = await self._post("/v1/chat/completions", messages=case["messages"], max_tokens=len(case["greedy_ids"]))
        choice = body["choices"][0]
        answered = _answered(choice["message"]["content"], choice["finish_reason"], body["usage"])
        check_answer(case, answered, self._tolerance)
        return ""

    async def _stream(self, case: Json) -> str:
        asked = {"prompt": case["prompt_ids"], "max_tokens": len(case["greedy_ids"])}
        return await self._streamed(case, "/v1/completions", asked, lambda choice: choice["text"])

    async def _chat_stream(self, case: Json) -> str:
        asked = {"messages": case["messages"], "max_tokens": len(case["greedy_ids"])}
        return await self._streamed(
            case, "/v1/chat/completions", asked, lambda choice: choice["delta"].get("content", "")
        )

    async def _streamed(self, case: Json, path: str, asked: Json, text_of: Callable[[Any], str]) -> str:
        text, finish, usage = "", None, None
        async for event in self._events(path, {**asked, "stream_options": {"include_usage": True}}):
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                text += text_of(choice)
                finish = choice["finish_reason"] or finish
        if usage is None:
            raise DifferentError("the stream had no usage")
        if "\ufffd" in text.rstrip("\ufffd") and "\ufffd" not in case["text"].rstrip("\ufffd"):
            raise DifferentError("a delta holds half a character")
        check_answer(case, _answered(text, finish, usage), self._tolerance)
        return ""

    async def _events(self, path: str, body: Json) -> AsyncIterator[Any]:
        async with self._client.stream("POST", path, json={"temperature": 0, "stream": True, **body}) as answer:
            if answer.status_code != 200:
                raise DifferentError(f"HTTP {answer.status_code}")
            async for line in answer.aiter_lines():
                if line == "data: [DONE]":
                    return
                if line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    if "error" in event:
                        raise DifferentError(f"an error came: {event['error']}")
                    yield event
        raise DifferentError("the stream ended without [DONE]")

    async def _top(self, case: Json, after: str) -> str:
        prompt = case["prompt_ids"] + case["greedy_ids"][: int(after)]
        body = await self._post("/v1/completions", prompt=prompt, max_tokens=1, logprobs=5)
        worst = check_top(case, after, body["choices"][0]["logprobs"]["top_logprobs"][0], self._tolerance)
        return f"off by at most {worst:.6f}"

    async def _nll(self, ids: list[int], wanted: float) -> str:
        body = await self._post("/v1/completions", prompt=ids, max_tokens=1, echo=True, logprobs=1)
        values = body["choices"][0]["logprobs"]["token_logprobs"]
        return f"off by {check_nll(wanted, values, len(ids), self._tolerance):.6f}"


def _answered(text: str, finish: str | None, usage: Json) -> Answered:
    return Answered(text, finish, usage["prompt_tokens"], usage["completion_tokens"])
