"""/v1/chat/completions."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from fastapi import Request
from starlette.responses import Response

from backstay_runtime.api import ask, body, errors, respond
from backstay_runtime.api.choice import Choice, Entry
from backstay_runtime.api.record import Record
from backstay_runtime.api.respond import Head, Whole, Work
from backstay_runtime.api.run import Pieces
from backstay_runtime.api.schemas import ChatRequest, Message
from backstay_runtime.api.service import Loaded, Service
from backstay_runtime.api.stream import event
from backstay_runtime.engine import Finish
from backstay_runtime.text.template import TemplateError
from backstay_runtime.text.tokenizer import Tokenizer

KIND = "chat.completion"
CHUNK = "chat.completion.chunk"


async def chat(request: Request, service: Service, record: Record) -> Response:
    """Answers one request."""
    asked = await body.read(request, ChatRequest)
    loaded = service.need()
    service.check_model(asked.model)
    prompt = render(asked.messages, loaded)
    ask.check_length(prompt, loaded, "messages")
    wanted = asked.max_tokens if asked.max_completion_tokens is None else asked.max_completion_tokens
    wishes = ask.wishes(
        [prompt],
        asked,
        arrival=record.arrival,
        limit=ask.fit([prompt], wanted, loaded),
        mode=service.mode,
        vocabulary=loaded.vocabulary,
        logprobs=(asked.top_logprobs or 0) if asked.logprobs else None,
    )
    choices = [Choice(loaded.tokenizer, asked.stop, rules=service.rules) for _ in wishes]
    answer = Answer(asked, Head(service, "chatcmpl"), loaded.tokenizer, record)
    work = Work(service, loaded, record, wishes, choices, respond.search_of(asked))
    if asked.stream:
        return await respond.answer_stream(request, work, answer.events)
    return await respond.answer_whole(request, work, answer.body)


def render(messages: list[Message], loaded: Loaded) -> list[int]:
    """The messages as token ids, in the model's own form. Raises ApiError 400 when its template refuses them."""
    if loaded.template is None:
        raise errors.invalid("this model has no chat template; use /v1/completions", "messages", "no_chat_template")
    plain = [
        {"role": message.role, "content": message.text(), **({"name": message.name} if message.name else {})}
        for message in messages
    ]
    try:
        text = loaded.template.render(plain)
    except TemplateError as why:
        raise errors.invalid(f"messages: {why}", "messages", "template_error") from None
    return loaded.tokenizer.encode(text, add_special=False)


class Answer:
    """Writes one request's answer in OpenAI's form."""

    def __init__(self, asked: ChatRequest, head: Head, tokenizer: Tokenizer, record: Record) -> None:
        self._asked = asked
        self._head = head
        self._tokenizer = tokenizer
        self._record = record

    def body(self, wholes: list[Whole], usage: Mapping[str, int]) -> Mapping[str, Any]:
        """The whole answer."""
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": whole.text},
                "logprobs": self._logprobs(whole.entries),
                "finish_reason": whole.finish,
            }
            for index, whole in enumerate(wholes)
        ]
        return {**self._head.fields(KIND), "choices": choices, "usage": usage}

    async def events(self, pieces: AsyncGenerator[Pieces, None]) -> AsyncGenerator[bytes, None]:
        """The answer as events: a choice's role first, then its text, then its end, then the usage if asked for."""
        begun: set[int] = set()
        async for batch in pieces:
            for index, piece in batch:
                if index not in begun:
                    begun.add(index)
                    yield self._event(index, {"role": "assistant", "content": ""})
                logprobs = self._logprobs(list(piece.entries))
                if piece.text or (logprobs and logprobs["content"]):
                    yield self._event(index, {"content": piece.text}, logprobs)
                if piece.finish is not None:
                    yield self._event(index, {}, finish=piece.finish)
        if self._asked.stream_options is not None and self._asked.stream_options.include_usage:
            yield event({**self._head.fields(CHUNK), "choices": [], "usage": respond.usage(self._record)})

    def _event(
        self, index: int, delta: dict[str, Any], logprobs: dict[str, Any] | None = None, finish: Finish | None = None
    ) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return event({**self._head.fields(CHUNK), "choices": [choice]})

    def _logprobs(self, entries: list[Entry]) -> dict[str, Any] | None:
        if not self._asked.logprobs:
            return None
        return {
            "content": [
                {
                    **self._token(entry.logprob.token, entry.logprob.logprob),
                    "top_logprobs": [
                        self._token(token, value) for token, value in entry.logprob.top[: self._asked.top_logprobs or 0]
                    ],
                }
                for entry in entries
            ]
        }

    def _token(self, id_: int, logprob: float) -> dict[str, Any]:
        raw = self._tokenizer.token_bytes(id_)
        return {"token": self._tokenizer.token(id_), "logprob": logprob, "bytes": list(raw)}
