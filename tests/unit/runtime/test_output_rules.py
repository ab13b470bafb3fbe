"""Rules that answers are held against, through the API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from backstay_contract.output import Fallback, OutputCheck, OutputRule

from .serving import Place, events, place

FALLBACK = {name.value: name for name in Fallback}
A = {"logit_bias": {"65": 100}, "temperature": 0}
"""Writes nothing but the letter A."""


@asynccontextmanager
async def held_against(folder: Path, *rules: OutputRule) -> AsyncIterator[Place]:
    async with place(folder) as one:
        one.service.rules = rules
        one.service.metrics.show_rules(rules)
        yield one


def rule(check: str, fallback: str, most: int | None = None) -> OutputRule:
    return OutputRule(rule=OutputCheck(check), fallback=Fallback(fallback), most=most)


def counted(here: Place, check: str, fallback: str) -> float:
    value = here.value("backstay_output_rules_total", rule=check, fallback=fallback)
    assert value is not None
    return value


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_too_long_is_cut_and_ends_with_its_own_reason(folder: Path, stream: bool) -> None:
    async with held_against(folder, rule("Length", "Truncate", 5)) as here:
        answer = await here.complete(prompt="x", max_tokens=40, stream=stream, **A)
        if stream:
            choices = [choice for event in events(answer.text) for choice in event["choices"]]
            text, finish = "".join(choice["text"] for choice in choices), choices[-1]["finish_reason"]
        else:
            text, finish = (answer.json()["choices"][0][key] for key in ("text", "finish_reason"))
        assert (text, finish) == ("AAAAA", "content_filter")
        assert counted(here, "Length", "Truncate") == 1
        await here.quiet()
        assert here.engine.scheduler.pool.used == 0


async def test_a_loop_ends_before_it_has_cost_much(folder: Path) -> None:
    async with held_against(folder, rule("Repetition", "Truncate")) as here:
        body = (await here.complete(prompt="x", max_tokens=200, **A)).json()
        assert body["choices"][0]["text"] == "A"
        assert body["usage"]["completion_tokens"] == 64


async def test_an_answer_that_is_refused_is_an_error_that_counts(folder: Path) -> None:
    async with held_against(folder, rule("Repetition", "Error")) as here:
        answer = await here.complete(prompt="x", max_tokens=100, **A)
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "output_refused"
        assert "Repetition" in answer.json()["error"]["message"]
        assert here.value("backstay_requests_finished_total", outcome="error") == 1


async def test_a_stream_that_is_refused_ends_with_an_error_event(folder: Path) -> None:
    async with held_against(folder, rule("Length", "Error", 20)) as here:
        answer = await here.complete(prompt="x", max_tokens=100, stream=True, **A)
        assert "output_refused" in answer.text
        await here.quiet()


def sampled(seed: int) -> dict[str, Any]:
    """Writes A or a zero byte, either as likely."""
    return {"prompt": "x", "logit_bias": {"65": 100, "0": 100}, "temperature": 5.0, "seed": seed, "max_tokens": 3}


async def test_an_illegal_answer_is_written_again_until_it_is_legal_or_the_tries_are_over(folder: Path) -> None:
    async with held_against(folder, rule("IllegalCharacters", "Retry")) as here:
        answers = [await here.complete(**sampled(seed)) for seed in range(40)]
        codes = {answer.status_code for answer in answers}
        assert codes == {200, 500}  # an answer is legal in 1 of about 8 cases, in 3 tries in about 1 of 3
        for answer in answers:
            if answer.status_code == 200:
                assert "\x00" not in answer.json()["choices"][0]["text"]
        good = sum(answer.status_code == 200 for answer in answers)
        assert counted(here, "IllegalCharacters", "Retry") > 40 - good
        await here.quiet()
        assert here.engine.scheduler.pool.used == 0


async def test_only_the_choice_that_is_wrong_is_written_again(folder: Path) -> None:
    async with place(folder) as plain:
        asked = {**sampled(0), "n": 4, "max_tokens": 2}
        seeds = [seed for seed in range(60) if await _illegal(plain, {**asked, "seed": seed}) == 1]
    assert seeds
    async with held_against(folder, rule("IllegalCharacters", "Retry")) as here:
        for seed in seeds[:3]:
            answer = await here.complete(**{**asked, "seed": seed})
            if answer.status_code == 200:
                texts = [choice["text"] for choice in answer.json()["choices"]]
                assert texts == ["AA"] * 4


async def _illegal(here: Place, asked: dict[str, Any]) -> int:
    choices = (await here.complete(**asked)).json()["choices"]
    return sum("\x00" in choice["text"] for choice in choices)


async def test_a_greedy_answer_is_not_written_again_since_it_would_be_the_same(folder: Path) -> None:
    async with held_against(folder, rule("Repetition", "Retry")) as here:
        answer = await here.complete(prompt="x", max_tokens=100, **A)
        assert answer.json()["error"]["code"] == "output_refused"
        assert counted(here, "Repetition", "Retry") == 1


async def test_an_empty_answer_is_refused(folder: Path) -> None:
    async with held_against(folder, rule("Empty", "Error")) as here:
        blank = {"logit_bias": {"32": 100}, "temperature": 0}
        assert (await here.complete(prompt="x", max_tokens=3, **blank)).status_code == 500
        assert (await here.complete(prompt="x", max_tokens=3, **A)).status_code == 200
