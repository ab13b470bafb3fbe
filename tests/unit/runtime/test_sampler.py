import math

import pytest
import torch
from backstay_runtime.sampling import sampler
from backstay_runtime.sampling.params import SamplingParams
from hypothesis import given
from hypothesis import strategies as st

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, -2.0])


def pick(logits: torch.Tensor, uniform: float, output: list[int] | None = None, **params: float) -> int:
    asked = SamplingParams(max_tokens=1, **params)  # type: ignore[arg-type]
    row = sampler.Row(asked, prompt=[4], output=output or [], uniform=uniform)
    return sampler.pick(logits[None], [row])[0].token


def allowed(**params: float) -> set[int]:
    tokens, _ = sampler.candidates(LOGITS, SamplingParams(max_tokens=1, **params))  # type: ignore[arg-type]
    return set(tokens.tolist())


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({}, {0, 1, 2, 3, 4}),
        ({"top_k": 2}, {0, 1}),
        ({"top_k": 1}, {0}),
        ({"top_k": 50}, {0, 1, 2, 3, 4}),
        ({"top_p": 0.5}, {0}),
        ({"top_p": 0.7}, {0, 1}),
        ({"top_p": 1e-9}, {0}),
        ({"top_p": 0.0}, {0}),
        ({"min_p": 0.3}, {0, 1}),
        ({"min_p": 1.0}, {0}),
        ({"top_k": 3, "min_p": 0.3}, {0, 1}),
        ({"top_k": 4, "top_p": 0.95}, {0, 1, 2}),
    ],
)
def test_each_filter_keeps_what_it_says(params: dict[str, float], kept: set[int]) -> None:
    assert allowed(**params) == kept


@given(
    count=st.integers(1, 900),
    top_p=st.floats(0.01, 0.999),
    spread=st.sampled_from([0.0, 0.1, 1.0, 4.0]),
    seed=st.integers(0, 99),
)
def test_a_nucleus_is_what_sorting_all_would_give(count: int, top_p: float, spread: float, seed: int) -> None:
    drawn = torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    probabilities = (drawn * spread).softmax(dim=0)
    found, places = sampler.nucleus(probabilities, top_p)
    whole = probabilities.sort(descending=True).values
    fewest = int((whole.cumsum(0) - whole < top_p - 1e-12).sum())  # equal shares may be rounded to either side
    assert max(1, fewest) <= len(found) <= max(1, int((whole.cumsum(0) - whole < top_p + 1e-12).sum()))
    assert torch.equal(found, whole[: len(found)])
    assert torch.equal(probabilities[places], found)
    assert len(set(places.tolist())) == len(places)


@given(st.floats(0, 1, exclude_max=True))
def test_the_drawn_token_is_the_one_whose_share_holds_the_number(uniform: float) -> None:
    edges = torch.softmax(LOGITS.double(), 0).cumsum(0).tolist()
    wanted = next(token for token, edge in enumerate(edges) if uniform < edge or token == 4)
    if min(abs(uniform - edge) for edge in edges) > 1e-9:
        assert pick(LOGITS, uniform) == wanted


@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=30),
    st.floats(1e-4, 50),
    st.integers(0, 40),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1, exclude_max=True),
)
def test_any_logits_and_settings_draw_a_token_that_exists(
    logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float, uniform: float
) -> None:
    asked = SamplingParams(max_tokens=1, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    tokens, probabilities = sampler.candidates(torch.tensor(logits), asked)
    assert len(tokens) >= 1
    assert bool(probabilities.isfinite().all())
    token = pick(torch.tensor(logits), uniform, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    assert token in tokens.tolist()


@pytest.mark.parametrize("temperature", [0.0, 1e-9, 1e-5])
@pytest.mark.case("I19")
def test_a_temperature_next_to_nothing_is_greedy(temperature: float) -> None:
    assert pick(LOGITS * 1e4, 0.999999, temperature=temperature) == 0


@pytest.mark.case("I19")
def test_a_small_temperature_with_large_logits_gives_finite_probabilities() -> None:
    logits = torch.tensor([1e4, -1e4, 9.99e3])
    _, probabilities = sampler.candidates(logits, SamplingParams(max_tokens=1, temperature=1e-4))
    assert probabilities.tolist() == [1.0, 0.0, 0.0]


def test_a_higher_temperature_flattens() -> None:
    _, cool = sampler.candidates(LOGITS, SamplingParams(max_tokens=1, temperature=0.5))
    _, warm = sampler.candidates(LOGITS, SamplingParams(max_tokens=1, temperature=2.0))
    assert cool[0] > warm[0]


def test_a_presence_penalty_counts_once_and_a_frequency_penalty_each_time() -> None:
    row = sampler.Row(
        SamplingParams(max_tokens=1, presence_penalty=0.5, frequency_penalty=0.25), [4], [0, 0, 1], uniform=0.0
    )
    assert sampler.penalise(LOGITS, row).tolist() == pytest.approx([1.0, 0.25, 0.0, -1.0, -2.0])


def test_a_repetition_penalty_makes_what_occurred_less_likely_on_both_sides_of_zero() -> None:
    row = sampler.Row(SamplingParams(max_tokens=1, repetition_penalty=2.0), [4], [0], uniform=0.0)
    assert sampler.penalise(LOGITS, row).tolist() == pytest.approx([1.0, 1.0, 0.0, -1.0, -4.0])


def test_penalties_change_what_greedy_chooses() -> None:
    assert pick(LOGITS, 0.0, output=[0], temperature=0.0, presence_penalty=1.5) == 1


def test_forbidden_tokens_are_not_chosen() -> None:
    for temperature in (0.0, 1.0):
        row = sampler.Row(
            SamplingParams(max_tokens=1, temperature=temperature), [], [], uniform=0.0, forbidden=frozenset({0, 1})
        )
        assert sampler.pick(LOGITS[None], [row])[0].token == 2


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_says_so_and_the_others_are_picked(bad: float) -> None:
    broken = LOGITS.clone()
    broken[3] = bad
    row = sampler.Row(SamplingParams(max_tokens=1, temperature=0.0), [], [], uniform=0.0)
    picked = sampler.pick(torch.stack((LOGITS, broken, LOGITS)), [row, row, row])
    assert [one.finite for one in picked] == [True, False, True]
    assert picked[2].token == 0


def test_logprobs_are_the_models_own_whatever_the_temperature() -> None:
    row = sampler.Row(SamplingParams(max_tokens=1, temperature=3.0, top_k=1, logprobs=2), [], [], uniform=0.0)
    found = sampler.pick(LOGITS[None], [row])[0].logprob
    wanted = torch.log_softmax(LOGITS, 0).tolist()
    assert found is not None
    assert found.logprob == pytest.approx(wanted[0])
    assert dict(found.top) == pytest.approx({0: wanted[0], 1: wanted[1]})


def test_logprobs_of_many_rows_are_those_of_each() -> None:
    logits = torch.randn(150, 11, generator=torch.Generator().manual_seed(0))
    tokens = [place % 11 for place in range(150)]
    found = sampler.token_logprobs(logits, tokens, 0)
    wanted = torch.log_softmax(logits, -1)
    assert [one.logprob for one in found] == pytest.approx(
        [float(wanted[row, token]) for row, token in enumerate(tokens)]
    )
    assert all(one.top == () for one in found)


def test_draws_follow_the_distribution() -> None:
    """Chi-squared over 5 tokens and 4,000 numbers; by chance it fails once in 100,000 runs, and the seed is fixed."""
    generator = torch.Generator().manual_seed(11)
    counts = [0] * 5
    for uniform in torch.rand(4000, generator=generator).tolist():
        counts[pick(LOGITS, uniform)] += 1
    expected = (torch.softmax(LOGITS, 0) * 4000).tolist()
    assert sum((got - want) ** 2 / want for got, want in zip(counts, expected, strict=True)) < 28.5
