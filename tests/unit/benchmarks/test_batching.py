"""The benchmark of ways to batch, on a tiny engine."""

from pathlib import Path

import pytest
from backstay_runtime.schedule.batching import Batching

from benchmarks.engine.batching import ANSWER, PROMPT, Ask, Played, drawn, play, summary
from tests.unit.runtime import tiny
from tests.unit.runtime.machinery import make_engine

ASKS = [Ask(0.0, (1, 2, 3), 2), Ask(0.0, (4, 5), 9), Ask(0.01, (6, 7), 3)]


@pytest.mark.parametrize("way", list(Batching))
def test_every_way_answers_all_that_was_asked(tmp_path: Path, way: Batching) -> None:
    engine = make_engine(tiny.write(tmp_path), max_sequences=2)
    engine.scheduler._batching = way
    played = play(engine, ASKS)
    assert played.tokens == sum(ask.tokens for ask in ASKS)
    assert len(played.first) == len(played.whole) == len(ASKS)
    assert max(played.batches) <= 2


def test_requests_of_a_seed_are_the_same_and_of_the_sizes_that_are_named() -> None:
    asks = drawn(50, 8.0, 3)
    assert asks == drawn(50, 8.0, 3)
    assert asks != drawn(50, 8.0, 4)
    assert all(PROMPT[0] <= len(ask.prompt) <= PROMPT[1] for ask in asks)
    assert all(ANSWER[0] <= ask.tokens <= ANSWER[1] for ask in asks)


def test_rates_are_a_turns_median() -> None:
    found = summary([Played(2.0, 20, [0.1], [1.0], [2, 4]), Played(1.0, 20, [0.3], [0.5], [3])])
    assert (found["requests/s"], found["tokens/s"], found["batch"]) == (0.75, 15.0, 3.0)
    assert (found["ttft_p50"], found["latency_p99"]) == (0.2, 1.0)
