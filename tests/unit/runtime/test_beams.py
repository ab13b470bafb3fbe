"""Beam search over made-up models."""

import itertools
import math
import random

import pytest
from backstay_runtime.sampling.beams import Beam, Beams
from hypothesis import given
from hypothesis import strategies as st

END = 0
Table = list[tuple[int, float]]


class Model:
    """A distribution of the next token for every text, drawn once."""

    def __init__(self, seed: int, vocabulary: int) -> None:
        self._seed, self._vocabulary = seed, vocabulary

    def next(self, tokens: tuple[int, ...]) -> Table:
        drawn = random.Random(f"{self._seed}/{tokens}")
        weights = [drawn.random() + 0.01 for _ in range(self._vocabulary)]
        table = [(token, math.log(weight / sum(weights))) for token, weight in enumerate(weights)]
        return sorted(table, key=lambda one: -one[1])


def search(model: Model, width: int, longest: int, penalty: float = 1.0) -> Beams:
    beams = Beams()
    while not beams.over(width=width, longest=longest):
        tables = [model.next(beam.tokens) for beam in beams.live]
        beams = beams.grow(tables, width=width, eos=frozenset({END}), penalty=penalty)
    return beams


def every_text(model: Model, vocabulary: int, longest: int) -> list[Beam]:
    texts = []
    for length in range(1, longest + 1):
        for tokens in itertools.product(range(vocabulary), repeat=length):
            whole = tokens[-1] == END or length == longest
            if whole and END not in tokens[:-1]:
                steps = (dict(model.next(tokens[:place]))[token] for place, token in enumerate(tokens))
                texts.append(Beam(tokens, sum(steps), tokens[-1] == END))
    return texts


@given(st.integers(0, 2**32), st.floats(0.0, 2.0))
def test_as_wide_as_there_are_texts_it_finds_the_best_of_all(seed: int, penalty: float) -> None:
    model = Model(seed, 3)
    best = search(model, width=40, longest=3, penalty=penalty).best(1, penalty, 3)[0]
    wanted = max(every_text(model, 3, 3), key=lambda beam: beam.score(penalty))
    assert best.score(penalty) == pytest.approx(wanted.score(penalty))


@given(st.integers(0, 2**32), st.integers(2, 6))
def test_one_beam_is_greedy(seed: int, vocabulary: int) -> None:
    model = Model(seed, vocabulary)
    tokens: tuple[int, ...] = ()
    while len(tokens) < 6 and (not tokens or tokens[-1] != END):
        tokens = (*tokens, model.next(tokens)[0][0])
    found = search(model, width=1, longest=6).best(1, 0.0, 6)[0].tokens
    assert found == tokens


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 8))
def test_beams_are_texts_of_the_model_with_their_own_log_probability(seed: int, width: int, longest: int) -> None:
    model = Model(seed, 6)
    beams = search(model, width, longest)
    assert len(beams.ended) <= width
    assert len(beams.live) <= width
    texts = [beam.tokens for beam in (*beams.ended, *beams.live)]
    assert len(set(texts)) == len(texts)
    for beam in beams.best(width, 1.0, longest):
        steps = [dict(model.next(beam.tokens[:place]))[token] for place, token in enumerate(beam.tokens)]
        assert beam.logprob == pytest.approx(sum(steps))
        assert END not in beam.tokens[:-1]
        assert len(beam.tokens) <= longest


def test_a_penalty_of_nought_prefers_short_texts_and_one_the_better_average() -> None:
    short, long = Beam((1, END), -2.0, stopped=True), Beam((1, 1, 1, 1), -3.0)
    beams = Beams((long,), (short,))
    assert beams.best(1, 0.0, 4) == [short]
    assert beams.best(1, 1.0, 4) == [long]


def test_a_text_that_could_still_grow_comes_after_those_that_have_ended() -> None:
    ended, growing = Beam((1, END), -9.0, stopped=True), Beam((1, 1), -1.0)
    assert Beams((growing,), (ended,)).best(2, 1.0, 8) == [ended, growing]


def test_the_search_is_over_when_enough_texts_have_ended() -> None:
    ended = Beam((END,), -1.0, stopped=True)
    assert Beams(ended=(ended, ended)).over(width=2, longest=9)
    assert not Beams(ended=(ended,)).over(width=2, longest=9)
    assert Beams(live=()).over(width=2, longest=9)
