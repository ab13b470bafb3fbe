"""Fitting prompts that are too long."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from backstay_runtime.text.truncate import MARK, Truncate, fitted
from hypothesis import given
from hypothesis import strategies as st

from .serving import MAX_MODEL_LEN, Place, place


@pytest.fixture
async def here(folder: Path) -> AsyncIterator[Place]:
    async with place(folder) as one:
        yield one


def test_the_head_the_tail_or_both_ends_are_kept_with_a_mark_where_something_is_missing() -> None:
    tokens, mark = [1, 2, 3, 4, 5, 6, 7, 8], [0]
    assert fitted(tokens, 5, mark, Truncate.KEEP_HEAD) == [1, 2, 3, 4, 0]
    assert fitted(tokens, 5, mark, Truncate.KEEP_TAIL) == [0, 5, 6, 7, 8]
    assert fitted(tokens, 5, mark, Truncate.KEEP_ENDS) == [1, 2, 0, 7, 8]
    assert fitted(tokens, 6, mark, Truncate.KEEP_ENDS) == [1, 2, 3, 0, 7, 8]


@given(
    st.lists(st.integers(1, 9), max_size=40), st.integers(1, 50), st.lists(st.just(0), max_size=6),
    st.sampled_from(Truncate),
)  # fmt: skip
def test_what_is_kept_fits_and_nothing_is_cut_without_need(
    tokens: list[int], most: int, mark: list[int], how: Truncate
) -> None:
    kept = fitted(tokens, most, mark, how)
    assert len(kept) == min(most, len(tokens))
    if len(tokens) <= most:
        assert kept == tokens
    elif mark and len(mark) < most:
        assert kept.count(0) == len(mark)
    words = [token for token in kept if token]
    if how is Truncate.KEEP_HEAD:
        assert words == tokens[: len(words)]
    if how is Truncate.KEEP_TAIL:
        assert words == tokens[len(tokens) - len(words) :]


@pytest.mark.parametrize("how", list(Truncate))
async def test_a_prompt_that_is_too_long_can_be_fitted_instead_of_refused(here: Place, how: Truncate) -> None:
    long = "".join(chr(97 + place % 26) for place in range(3 * MAX_MODEL_LEN))
    assert (await here.complete(prompt=long, max_tokens=8)).status_code == 400
    answer = await here.complete(prompt=long, max_tokens=8, truncate=how, echo=True)
    text, usage = answer.json()["choices"][0]["text"], answer.json()["usage"]
    assert usage["prompt_tokens"] == MAX_MODEL_LEN - 8
    assert MARK in text
    assert text.startswith("abc") == (how is not Truncate.KEEP_TAIL)


async def test_a_prompt_that_fits_is_left_as_it_is(here: Place) -> None:
    plain, fitted_ = [
        (await here.complete(prompt="Good day", max_tokens=8, temperature=0, **more)).json()["choices"]
        for more in ({}, {"truncate": "keep_tail"})
    ]
    assert plain == fitted_


async def test_an_unknown_way_to_truncate_is_refused_with_those_there_are(here: Place) -> None:
    answer = await here.complete(prompt="x", truncate="somewhere")
    assert answer.status_code == 400
    assert "'keep_head', 'keep_tail' or 'keep_ends'" in answer.json()["error"]["message"]
