"""/v1/completions."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from fastapi import Request
from starlette.responses import Response

from backstay_runtime.api import ask, body, respond
from backstay_runtime.api.choice import Choice, Entry
from backstay_runtime.api.record import Record
from backstay_runtime.api.respond import Head, Whole, Work
from backstay_runtime.api.run import Pieces
from backstay_runtime.api.schemas import CompletionRequest
from backstay_runtime.api.service import Service
from backstay_runtime.api.stream import event
from backstay_runtime.engine import Finish
from backstay_runtime.sampling.params import TokenLogprob
from backstay_runtime.text.detokenizer import Detokenizer
from backstay_runtime.text.tokenizer import Tokenizer

DEFAULT_MAX_TOKENS = 16
KIND = "text_completion"


async def complete(request: Request, service: Service, record: Record) -> Response:
    """Answers one request."""
    asked = await body.read(request, CompletionRequest)
    loaded = service.need()
    service.check_model(asked.model)
    wanted = DEFAULT_MAX_TOKENS if asked.max_tokens is None else asked.max_tokens
    prompts, texts = ask.read_prompts(asked.prompt, loaded, asked.truncate, wanted)
    wishes = ask.wishes(
        prompts,
        asked,
        arrival=record.arrival,
        limit=ask.fit(prompts, wanted, loaded),
        mode=service.mode,
        vocabulary=loaded.vocabulary,
        logprobs=0 if asked.logprobs is None and asked.copies > (asked.n or 1) else asked.logprobs,
        copies=asked.copies,
        prompt_logprobs=asked.echo and asked.logprobs is not None,
    )
    echoes = _echoes(asked, prompts, texts, loaded.tokenizer)
    choices = [Choice(loaded.tokenizer, asked.stop, len(echo.text), service.rules) for echo in echoes]
    work = Work(service, loaded, record, wishes, choices, respond.search_of(asked))
    answer = Answer(asked, Head(service, "cmpl"), loaded.tokenizer, echoes, record)
    if asked.stream:
        return await respond.answer_stream(request, work, answer.events)
    return await respond.answer_whole(request, work, answer.body)


class Echo:
    """What stands before a choice's own text: nothing, or its prompt."""

    def __init__(self, prompt: list[int], text: str, offsets: list[int]) -> None:
        """`offsets`: where each prompt token's text begins."""
        self.prompt = prompt
        self.text = text
        self.offsets = offsets


def _echoes(
    asked: CompletionRequest, prompts: list[list[int]], texts: list[str] | None, tokenizer: Tokenizer
) -> list[Echo]:
    copies = asked.copies
    if not asked.echo:
        return [Echo([], "", [])] * (len(prompts) * copies)
    echoes = []
    for place, prompt in enumerate(prompts):
        detokenizer = Detokenizer(lambda ids: tokenizer.decode(ids, skip_special=False))
        text, offsets = "", []
        for token in prompt:
            offsets.append(len(text))
            text += detokenizer.push(token)
        text += detokenizer.flush()
        echoes += [Echo(prompt, text if texts is None else texts[place], offsets)] * copies
    return echoes


def likeliest(choices: Sequence[Sequence[Entry]], copies: int, wanted: int) -> list[int]:
    """Of each prompt's `copies` choices the places of the `wanted` ones whose tokens are likeliest on average."""
    if copies == wanted:
        return list(range(len(choices)))
    kept: list[int] = []
    for first in range(0, len(choices), copies):
        places = range(first, first + copies)
        kept += sorted(places, key=lambda place: -_average(choices[place]))[:wanted]
    return kept


def _average(entries: Sequence[Entry]) -> float:
    return sum(entry.logprob.logprob for entry in entries) / max(1, len(entries))


class Answer:
    """Writes one request's answer in OpenAI's form."""

    def __init__(
        self, asked: CompletionRequest, head: Head, tokenizer: Tokenizer, echoes: list[Echo], record: Record
    ) -> None:
        self._asked = asked
        self._head = head
        self._tokenizer = tokenizer
        self._echoes = echoes
        self._record = record
        self._echoed = asked.max_tokens == 0
        """Only the prompt is wanted: the one token that was generated all the same is left out."""

    def body(self, wholes: list[Whole], usage: Mapping[str, int]) -> Mapping[str, Any]:
        """The whole answer."""
        choices = []
        kept = likeliest([whole.entries for whole in wholes], self._asked.copies, self._asked.n or 1)
        for index, place in enumerate(kept):
            whole, echo = wholes[place], self._echoes[place]
            entries = [] if self._echoed else whole.entries
            finish = Finish.LENGTH if self._echoed else whole.finish
            text = echo.text + ("" if self._echoed else whole.text)
            logprobs = self._logprobs(entries, echo, whole.prompt_logprobs)
            choices.append(_choice(index, text, logprobs, finish))
        return {**self._head.fields(KIND), "choices": choices, "usage": self._usage(usage)}

    def _usage(self, usage: Mapping[str, int]) -> Mapping[str, int]:
        if not self._echoed:
            return usage
        return {**usage, "completion_tokens": 0, "total_tokens": usage["prompt_tokens"]}

    async def events(self, pieces: AsyncGenerator[Pieces, None]) -> AsyncGenerator[bytes, None]:
        """The answer as events: one a choice and flush, then the usage if it was asked for."""
        begun: set[int] = set()
        async for batch in pieces:
            for index, whole in _merged(batch).items():
                echo = Echo([], "", []) if index in begun else self._echoes[index]
                begun.add(index)
                entries = [] if self._echoed else whole.entries
                finish = Finish.LENGTH if self._echoed and whole.finish else whole.finish
                text = echo.text + ("" if self._echoed else whole.text)
                logprobs = self._logprobs(entries, echo, whole.prompt_logprobs)
                if text or logprobs or finish:
                    yield event({**self._head.fields(KIND), "choices": [_choice(index, text, logprobs, finish)]})
        if self._asked.stream_options is not None and self._asked.stream_options.include_usage:
            usage = self._usage(respond.usage(self._record))
            yield event({**self._head.fields(KIND), "choices": [], "usage": usage})

    def _logprobs(
        self, entries: list[Entry], echo: Echo, prompt_logprobs: tuple[TokenLogprob, ...]
    ) -> dict[str, Any] | None:
        """Lists with one item a token; the first token of an echoed prompt was predicted by nothing."""
        if self._asked.logprobs is None:
            return None
        top = self._asked.logprobs
        name = self._tokenizer.token
        said: list[TokenLogprob] = (
            [*prompt_logprobs, *(entry.logprob for entry in entries)]
            if echo.prompt
            else [entry.logprob for entry in entries]
        )
        tokens: list[str] = [name(one.token) for one in said]
        values: list[float | None] = [one.logprob for one in said]
        tops: list[dict[str, float] | None] = [self._top(one, top) for one in said]
        if echo.prompt:
            tokens, values, tops = [name(echo.prompt[0]), *tokens], [None, *values], [None, *tops]
        return {
            "tokens": tokens,
            "token_logprobs": values,
            "top_logprobs": tops if top else None,
            "text_offset": [*echo.offsets, *(entry.offset for entry in entries)],
        }

    def _top(self, one: TokenLogprob, top: int) -> dict[str, float]:
        """The likeliest tokens and the chosen one, by their texts."""
        likeliest = {self._tokenizer.token(token): value for token, value in reversed(one.top[:top])}
        return {self._tokenizer.token(one.token): one.logprob, **likeliest}


def _merged(batch: Pieces) -> dict[int, Whole]:
    """A flush's pieces, joined by choice."""
    wholes: dict[int, Whole] = {}
    for index, piece in batch:
        wholes.setdefault(index, Whole()).add(piece)
    return wholes


def _choice(index: int, text: str, logprobs: dict[str, Any] | None, finish: Finish | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}
