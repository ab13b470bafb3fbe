"""What requests say about their turn and about sharing, end to end through the API."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from backstay_contract.names import RuntimeMetric
from prometheus_client.parser import text_string_to_metric_families

from .machinery import prompt
from .serving import Place, place


@pytest.fixture
async def here(folder: Path) -> AsyncIterator[Place]:
    async with place(folder) as one:
        yield one


async def hits(here: Place) -> float:
    text = (await here.client.get("/metrics")).text
    families = text_string_to_metric_families(text)
    return sum(one.value for each in families for one in each.samples if one.name == RuntimeMetric.PREFIX_HITS)


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
async def test_a_class_changes_the_turn_and_not_the_answer(here: Place, priority: str) -> None:
    plain = (await here.complete(prompt="Good day", max_tokens=8)).json()["choices"]
    assert (await here.complete(prompt="Good day", max_tokens=8, priority=priority)).json()["choices"] == plain


async def test_an_unknown_class_is_refused_with_those_there_are(here: Place) -> None:
    answer = await here.complete(prompt="Good day", priority="urgent")
    assert answer.status_code == 400
    assert "priority" in answer.json()["error"]["message"]
    assert "'high', 'normal' or 'low'" in answer.json()["error"]["message"]


async def test_a_prompt_asked_again_is_found_and_with_another_salt_is_not(here: Place) -> None:
    read = prompt(0, 17)
    first = (await here.complete(prompt=read, max_tokens=4)).json()["choices"]
    assert await hits(here) == 0
    assert (await here.complete(prompt=read, max_tokens=4)).json()["choices"] == first
    assert await hits(here) == 16
    salted = await here.complete(prompt=read, max_tokens=4, cache_salt="tenant")
    assert salted.json()["choices"] == first
    assert await hits(here) == 16


async def test_a_salt_of_endless_length_is_refused(here: Place) -> None:
    answer = await here.complete(prompt="x", cache_salt="s" * 257)
    assert answer.status_code == 400
    assert "cache_salt" in answer.json()["error"]["message"]
