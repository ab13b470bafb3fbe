"""The evaluation set beside the users' requests: what it finds, what it takes, and what it leaves alone."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from backstay_contract.manifest import EvaluationItem
from backstay_runtime.assemble import BLOCK_SIZE
from backstay_runtime.evaluation import pacing
from backstay_runtime.evaluation.evaluator import Evaluator
from backstay_runtime.evaluation.pacing import Pacing
from backstay_runtime.evaluation.texts import Text, tokenize
from backstay_runtime.model.linear import Dtype
from backstay_runtime.model.load import load_llama
from backstay_runtime.runner import Runner
from backstay_runtime.text.tokenizer import Tokenizer
from hypothesis import given
from hypothesis import strategies as st

from . import tiny
from .machinery import prompt

OWN = range(40, 56)
TEXTS = tuple(Text(tuple(prompt(seed, length)), 1.5 * length) for seed, length in enumerate((9, 40, 3, 150)))


def runner(folder: Path) -> Runner:
    model = load_llama(folder, dtype=Dtype.FLOAT32, device=torch.device("cpu"), positions=256)
    return Runner(model, blocks=OWN.stop, block_size=BLOCK_SIZE)


class Clock:
    """A clock on which each chunk takes as long as its next number says."""

    def __init__(self, *seconds: float) -> None:
        self._steps = itertools.cycle(seconds)
        self.now = 0.0

    def __call__(self) -> float:
        self.now += next(self._steps)
        return self.now


def evaluate(evaluator: Evaluator, rounds: int = 1) -> int:
    """Works until so many rounds are over; the chunks it took."""
    for chunks in itertools.count(1):
        evaluator.work()
        if evaluator.state.rounds == rounds or evaluator.state.problem:
            return chunks
    raise AssertionError


def reference_nll(tokens: tuple[int, ...]) -> float:
    """In float64, without cache and chunks."""
    logits = tiny.reference_logits(list(tokens), tiny.tensors())[:-1]
    total = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    return float((total - logits[np.arange(len(tokens) - 1), list(tokens[1:])]).sum())


# --- what it finds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.001, 0.02, 1.0])
def test_the_losses_are_the_models_however_large_the_chunks_are(folder: Path, seconds: float) -> None:
    evaluator = Evaluator(runner(folder), TEXTS, OWN, clock=Clock(seconds))
    evaluate(evaluator)
    state = evaluator.state
    for text, item in zip(TEXTS, state.found, strict=True):
        assert item.nll == pytest.approx(reference_nll(text.tokens), rel=1e-5)
        assert (item.tokens, item.recorded_nll) == (len(text.tokens) - 1, text.recorded_nll)
    assert state.nll == pytest.approx(sum(item.nll for item in state.found))
    assert state.tokens == sum(item.tokens for item in state.found)
    assert state.last is not None
    assert state.last.perplexity == pytest.approx(math.exp(state.nll / state.tokens))


def test_every_round_finds_the_same_and_adds_to_the_sums(folder: Path) -> None:
    evaluator = Evaluator(runner(folder), TEXTS, OWN, clock=Clock(0.02))
    evaluate(evaluator)
    first = evaluator.state
    evaluate(evaluator, rounds=3)
    assert evaluator.state.found == first.found
    assert evaluator.state.nll == pytest.approx(3 * first.nll)
    assert evaluator.state.tokens == 3 * first.tokens


def test_a_text_that_gives_no_number_is_told_and_spoils_no_other(folder: Path, tmp_path: Path) -> None:
    weights = tiny.tensors()
    weights["model.embed_tokens.weight"][7] = math.nan
    config = {**tiny.CONFIG, "tie_word_embeddings": False}
    weights["lm_head.weight"] = tiny.tensors()["model.embed_tokens.weight"]
    texts = (Text((1, 2, 3, 4), 4.0), Text((5, 6, 7, 8, 9), 4.0), Text((1, 2, 3, 4), 4.0))
    evaluator = Evaluator(runner(tiny.write(tmp_path / "sick", weights, config)), texts, OWN, clock=Clock(0.02))
    evaluate(evaluator)
    losses = [item.nll for item in evaluator.state.found]
    assert math.isnan(losses[1])
    assert losses[0] == losses[2]
    assert math.isfinite(losses[0])
    assert evaluator.state.last is not None
    assert (evaluator.state.last.broken, evaluator.state.last.excess) == (1, None)


def test_a_model_that_fails_is_told_and_not_tried_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = runner(folder)

    def fail(*_: object) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(broken, "run", fail)
    evaluator = Evaluator(broken, TEXTS, OWN, clock=Clock(0.02))
    evaluator.work()
    assert "RuntimeError: no such kernel" in evaluator.state.problem
    assert evaluator.pause(1e9, idle=True) is None


# --- the texts ----------------------------------------------------------------------------------------------------


def item(text: str, tokens: int) -> EvaluationItem:
    return EvaluationItem(text=text, nll=2.0 * tokens, tokens=tokens)


def test_each_text_is_read_as_the_models_tokenizer_reads_it(folder: Path) -> None:
    texts, problem = tokenize([item("abc", 2), item("é", 1)], Tokenizer(folder).encode, 256)
    assert (problem, texts) == ("", (Text((97, 98, 99), 4.0), Text((0xC3, 0xA9), 2.0)))


@pytest.mark.parametrize(
    ("items", "longest", "said"),
    [
        (
            [item("ab", 1), item("abc", 3)],
            256,
            "evaluation item 2 has 2 predicted tokens, and its loss was recorded over 3",
        ),
        ([item("a" * 11, 10)], 10, "evaluation item 1 has 11 tokens, and the model 10 positions"),
        ([item("", 1)], 256, "evaluation item 1 has -1 predicted tokens"),
    ],
)
def test_a_set_that_does_not_fit_its_model_says_which_item(
    folder: Path, items: list[EvaluationItem], longest: int, said: str
) -> None:
    texts, problem = tokenize(items, Tokenizer(folder).encode, longest)
    assert texts == ()
    assert said in problem


def test_a_set_that_cannot_be_computed_has_nothing_to_do(folder: Path) -> None:
    assert Evaluator(runner(folder), (), (), problem="why").pause(0.0, idle=True) is None


# --- what it takes ------------------------------------------------------------------------------------------------

durations = st.lists(st.floats(0.001, 0.5), min_size=30, max_size=200)


def taken(chunks: list[float], *, idle: bool, first_round: bool) -> float:
    """The share of the time that the chunks take when each begins as soon as it may."""
    pace, now = Pacing(), 0.0
    if not first_round:
        pace.round_over(-pacing.ROUND_PAUSE)
    for seconds in chunks:
        now += pace.pause(now, idle=idle)
        pace.spent(now, now + seconds)
        now += seconds
    return sum(chunks) / (now + pace.pause(now, idle=idle))


@given(durations, st.booleans())
def test_beside_requests_it_takes_no_more_than_its_share(chunks: list[float], first_round: bool) -> None:
    assert taken(chunks, idle=False, first_round=first_round) <= pacing.BUSY_SHARE * (1 + 1e-9)


@given(durations)
def test_after_the_first_round_it_takes_little_of_an_idle_machine_too(chunks: list[float]) -> None:
    assert taken(chunks, idle=True, first_round=False) <= pacing.IDLE_SHARE * (1 + 1e-9)


@given(durations)
def test_the_first_round_of_an_idle_machine_waits_for_nothing(chunks: list[float]) -> None:
    assert taken(chunks, idle=True, first_round=True) == pytest.approx(pacing.FIRST_IDLE_SHARE)


@given(st.floats(0, 1e6))
def test_a_round_does_not_follow_at_once_on_the_one_before(ended: float) -> None:
    pace = Pacing()
    pace.spent(ended, ended)
    pace.round_over(ended)
    assert pace.pause(ended, idle=True) == pytest.approx(pacing.ROUND_PAUSE)


@given(st.floats(1e-5, 10.0))
def test_chunks_become_as_long_as_a_request_may_wait_or_as_small_as_pays(seconds_per_token: float) -> None:
    pace, now = Pacing(), 0.0
    for _ in range(20):
        ended = now + seconds_per_token * pace.chunk
        pace.spent(now, ended)
        now = ended
    fits = pace.chunk * seconds_per_token <= pacing.CHUNK_SECONDS
    assert fits or pace.chunk == pacing.SMALLEST_CHUNK or pace.chunk * seconds_per_token / 2 <= pacing.CHUNK_SECONDS
    assert pacing.SMALLEST_CHUNK <= pace.chunk <= pacing.LARGEST_CHUNK
