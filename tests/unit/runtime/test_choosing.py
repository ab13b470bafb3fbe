"""Biases, the best of several texts, and beams, through the API."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from backstay_runtime.api.beaming import BeamRun, Search
from backstay_runtime.api.choice import Choice, Entry, Piece, Texts
from backstay_runtime.api.completions import likeliest
from backstay_runtime.api.record import Record
from backstay_runtime.engine import Output
from backstay_runtime.loop import Wish
from backstay_runtime.sampling.params import SamplingParams, TokenLogprob

from . import tiny
from .machinery import alone, prompt
from .serving import Place, place


@pytest.fixture
async def here(folder: Path) -> AsyncIterator[Place]:
    async with place(folder) as one:
        yield one


async def test_a_token_that_is_made_likely_enough_is_written(here: Place) -> None:
    answer = await here.complete(prompt="x", max_tokens=3, temperature=0, logit_bias={"65": 100}, logprobs=0)
    assert answer.json()["choices"][0]["text"] == "AAA"


async def test_a_token_that_is_made_unlikely_is_not_written(here: Place, folder: Path) -> None:
    token = alone(folder, prompt(0, 5))[0]
    plain = await here.complete(prompt=prompt(0, 5), max_tokens=1, temperature=0, logprobs=0)
    other = await here.complete(prompt=prompt(0, 5), max_tokens=1, temperature=0, logprobs=0, logit_bias={token: -100})
    first, second = (answer.json()["choices"][0]["logprobs"]["tokens"] for answer in (plain, other))
    assert first != second


@pytest.mark.parametrize("token", ["-1", "x", "1.0", str(tiny.VOCABULARY), "9" * 40, "٣"])
async def test_a_bias_of_what_is_no_token_is_refused(here: Place, token: str) -> None:
    answer = await here.complete(prompt="x", logit_bias={token: 1})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "logit_bias"
    assert "no token id" in answer.json()["error"]["message"]


@pytest.mark.parametrize("value", [101, -101])
async def test_a_bias_beyond_a_hundred_is_refused(here: Place, value: int) -> None:
    assert (await here.complete(prompt="x", logit_bias={"1": value})).status_code == 400


async def test_the_best_of_several_is_the_one_whose_tokens_are_likeliest_on_average(here: Place) -> None:
    asked = {"prompt": "best", "max_tokens": 6, "temperature": 1.5, "seed": 4, "logprobs": 0}
    all_ = (await here.complete(**asked, n=4)).json()["choices"]
    best = max(all_, key=lambda one: sum(one["logprobs"]["token_logprobs"]) / len(one["logprobs"]["token_logprobs"]))
    answer = (await here.complete(**asked, n=1, best_of=4)).json()
    assert [one["text"] for one in answer["choices"]] == [best["text"]]
    assert answer["usage"]["completion_tokens"] == sum(len(one["logprobs"]["tokens"]) for one in all_)


async def test_the_best_ones_log_probabilities_are_not_told_unless_asked_for(here: Place) -> None:
    answer = await here.complete(prompt="best", max_tokens=3, best_of=2, seed=1)
    assert [one["logprobs"] for one in answer.json()["choices"]] == [None]


def test_of_each_prompt_the_likeliest_are_kept() -> None:
    def entries(*logprobs: float) -> list[Entry]:
        return [Entry(TokenLogprob(0, one, ()), 0) for one in logprobs]

    choices = [entries(-3.0), entries(-1.0, -1.0), entries(-0.5), entries(-2.0)]
    assert likeliest(choices, copies=2, wanted=1) == [1, 2]
    assert likeliest(choices, copies=4, wanted=2) == [2, 1]
    assert likeliest(choices, copies=1, wanted=1) == [0, 1, 2, 3]


async def test_one_beam_writes_the_greedy_text(here: Place) -> None:
    greedy = await here.complete(prompt="beam", max_tokens=10, temperature=0)
    beam = await here.complete(prompt="beam", max_tokens=10, num_beams=1)
    assert beam.json()["choices"][0]["text"] == greedy.json()["choices"][0]["text"]
    assert beam.json()["choices"][0]["finish_reason"] == greedy.json()["choices"][0]["finish_reason"]


class Taken(Choice):
    """A choice that remembers its tokens."""

    def __init__(self, texts: Texts) -> None:
        super().__init__(texts, ())
        self.tokens: list[int] = []

    def feed(self, output: Output) -> Piece:
        if output.token is not None:
            self.tokens.append(output.token)
        return super().feed(output)


async def searched(here: Place, read: list[int], width: int) -> list[int]:
    loaded, arrival = here.service.need(), time.monotonic()
    wish = Wish(read, SamplingParams(max_tokens=4), arrival, arrival + 60)
    choice = Taken(loaded.tokenizer)
    run = BeamRun(here.service, loaded, Record("trace", arrival), [wish], [choice], Search(width, 1.0))
    async for _ in run.pieces():
        pass
    return choice.tokens


@pytest.mark.parametrize("seed", range(5))
async def test_the_widest_search_finds_a_text_at_least_as_likely_as_greedy(here: Place, seed: int) -> None:
    read = prompt(seed, 6)

    async def average(tokens: list[int]) -> float:
        echoed = await here.complete(prompt=read + tokens, max_tokens=0, echo=True, logprobs=0)
        logprobs = echoed.json()["choices"][0]["logprobs"]["token_logprobs"][len(read) :]
        return float(sum(logprobs)) / len(tokens)

    assert await average(await searched(here, read, 8)) >= await average(await searched(here, read, 1)) - 1e-4


async def test_several_beams_are_several_texts_best_first_and_the_cache_is_free_afterwards(here: Place) -> None:
    body = (await here.complete(prompt=["one", "two"], max_tokens=5, num_beams=4, n=3)).json()
    texts = [choice["text"] for choice in body["choices"]]
    assert [choice["index"] for choice in body["choices"]] == list(range(6))
    assert len(set(texts[:3])) == 3
    assert texts[0] == (await here.complete(prompt="one", max_tokens=5, num_beams=4)).json()["choices"][0]["text"]
    await here.quiet()
    assert here.engine.scheduler.pool.used == 0


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"num_beams": 9}, "num_beams"),
        ({"num_beams": 2, "n": 3}, "num_beams 2 must be at least n 3"),
        ({"num_beams": 2, "stream": True}, "cannot be streamed"),
        ({"num_beams": 2, "logprobs": 1}, "logprobs are not told for beams"),
        ({"best_of": 2, "n": 3}, "best_of 2 must be at least n 3"),
        ({"best_of": 3, "stream": True}, "best_of above n cannot be streamed"),
        ({"best_of": 9}, "best_of"),
    ],
)
async def test_what_cannot_be_is_refused_by_name(here: Place, wrong: dict[str, object], named: str) -> None:
    answer = await here.complete(prompt="x", **wrong)
    assert answer.status_code == 400
    assert named in answer.json()["error"]["message"]
