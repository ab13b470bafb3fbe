from dataclasses import replace
from pathlib import Path

import pytest
import torch
from backstay_runtime.engine import Finish
from backstay_runtime.kv import prefix
from backstay_runtime.sampling.params import SamplingParams

from . import tiny
from .machinery import GREEDY, alone, finish, make_engine, prompt, tokens

SAMPLED = SamplingParams(max_tokens=12, temperature=1.0, ignore_eos=True)


def test_together_each_gets_what_it_gets_alone(folder: Path) -> None:
    prompts = [prompt(seed, length) for seed, length in enumerate((1, 40, 7, 19, 2, 33))]
    engine = make_engine(folder)
    numbers = [engine.add(one, GREEDY, arrival=0.0) for one in prompts]
    found = finish(engine)
    assert [tokens(found[number]) for number in numbers] == [alone(folder, one) for one in prompts]


@pytest.mark.case("I31")
def test_with_too_little_cache_all_finish_with_the_same_tokens_and_none_twice(folder: Path) -> None:
    """12 blocks for 8 sequences that need 8 each: they are put back and computed again, many times."""
    prompts = [prompt(seed, 6 + seed) for seed in range(8)]
    params = replace(GREEDY, max_tokens=20)
    engine = make_engine(folder, blocks=2 + 12)
    numbers = [engine.add(one, params, arrival=float(place)) for place, one in enumerate(prompts)]
    found = finish(engine)
    assert engine.preemptions > 8
    assert [tokens(found[number]) for number in numbers] == [alone(folder, one, params) for one in prompts]
    assert engine.scheduler.pool.used == 0


@pytest.mark.case("I33")
def test_a_seeded_request_draws_the_same_alone_and_beside_others(folder: Path) -> None:
    seeded = replace(SAMPLED, seed=7)
    wanted = alone(folder, prompt(0, 9), seeded)
    engine = make_engine(folder)
    number = engine.add(prompt(0, 9), seeded, arrival=0.0)
    for seed, other in ((1, SAMPLED), (2, replace(SAMPLED, seed=8)), (3, GREEDY)):
        engine.add(prompt(seed, 12), other, arrival=0.0)
    assert tokens(finish(engine)[number]) == wanted
    assert alone(folder, prompt(0, 9), replace(SAMPLED, seed=8)) != wanted


def test_a_seeded_request_draws_the_same_though_it_is_computed_again(folder: Path) -> None:
    seeded = replace(SAMPLED, max_tokens=20, seed=7)
    engine = make_engine(folder, blocks=2 + 9)
    engine.add(prompt(1, 9), replace(GREEDY, max_tokens=20), arrival=0.0)
    number = engine.add(prompt(0, 9), seeded, arrival=1.0)
    found = finish(engine)
    assert engine.preemptions > 0
    assert tokens(found[number]) == alone(folder, prompt(0, 9), seeded)


def test_only_the_request_with_numbers_that_are_not_finite_fails(tmp_path: Path) -> None:
    weights = tiny.tensors()
    weights["model.embed_tokens.weight"][255] = float("nan")
    # The head is apart from the embedding, or each row would have a logit that is not finite.
    config = {**tiny.CONFIG, "tie_word_embeddings": False}
    weights = tiny.tensors(config) | {"model.embed_tokens.weight": weights["model.embed_tokens.weight"]}
    broken = tiny.write(tmp_path / "broken", weights, config)
    whole = tiny.write(tmp_path / "whole", tiny.tensors(config), config)
    good = [one % 255 for one in prompt(1, 9)]
    engine = make_engine(broken)
    bad = engine.add([1, 2, 255, 3], GREEDY, arrival=0.0)
    beside = engine.add(good, GREEDY, arrival=0.0)
    found = finish(engine)
    assert [output.finish for output in found[bad] if output.finish] == [Finish.NON_FINITE]
    assert tokens(found[beside])[:3] == alone(whole, good)[:3]
    # The next one gets the same blocks, and must not find anything in them.
    after = engine.add(good, GREEDY, arrival=0.0)
    assert tokens(finish(engine)[after])[:3] == alone(whole, good)[:3]


def test_a_text_ends_with_its_end_token_unless_that_is_ignored(folder: Path) -> None:
    written = alone(folder, prompt(0, 9))
    end = written[4]
    stop_at = written.index(end)
    engine = make_engine(folder, eos=frozenset({end}))
    number = engine.add(prompt(0, 9), replace(GREEDY, ignore_eos=False), arrival=0.0)
    outputs = finish(engine)[number]
    assert tokens(outputs) == written[: stop_at + 1]
    assert outputs[-1].finish is Finish.STOP


def test_no_end_token_is_chosen_before_the_least_number_of_tokens(folder: Path) -> None:
    end = alone(folder, prompt(0, 9))[0]
    engine = make_engine(folder, eos=frozenset({end}))
    number = engine.add(prompt(0, 9), replace(GREEDY, ignore_eos=False, min_tokens=5), arrival=0.0)
    assert end not in tokens(finish(engine)[number])[:5]


def test_the_most_tokens_end_a_text_with_length(folder: Path) -> None:
    engine = make_engine(folder)
    number = engine.add(prompt(0, 3), GREEDY, arrival=0.0)
    outputs = finish(engine)[number]
    assert len(tokens(outputs)) == 12
    assert outputs[-1].finish is Finish.LENGTH


def test_an_aborted_sequence_frees_its_blocks_at_once(folder: Path) -> None:
    engine = make_engine(folder)
    number = engine.add(prompt(0, 30), GREEDY, arrival=0.0)
    engine.step(0.0)
    assert engine.scheduler.pool.used > 0
    engine.abort(number)
    assert engine.scheduler.pool.used == 0
    assert engine.idle
    engine.abort(number)  # a second time nothing happens


def test_a_deadline_ends_a_sequence_with_its_own_reason(folder: Path) -> None:
    engine = make_engine(folder)
    number = engine.add(prompt(0, 3), GREEDY, arrival=0.0, deadline=2.0)
    engine.step(1.0)
    outputs = engine.step(2.0)
    assert [(output.number, output.finish) for output in outputs] == [(number, Finish.DEADLINE)]
    assert engine.idle


def test_an_empty_prompt_is_refused_and_the_next_is_served(folder: Path) -> None:
    engine = make_engine(folder)
    with pytest.raises(ValueError, match="0 tokens"):
        engine.add([], GREEDY, arrival=0.0)
    number = engine.add([1], GREEDY, arrival=0.0)
    assert len(tokens(finish(engine)[number])) == 12


@pytest.mark.parametrize("blocks", [66, 2 + 9])
def test_a_prompts_own_logprobs_are_the_references(folder: Path, blocks: int) -> None:
    """Also when the prompt is read in chunks, and when it is read again."""
    asked = replace(GREEDY, logprobs=3, prompt_logprobs=True, max_tokens=10)
    read = prompt(0, 22)
    engine = make_engine(folder, blocks=blocks)
    engine.add(prompt(1, 9), replace(GREEDY, max_tokens=20), arrival=0.0)
    number = engine.add(read, asked, arrival=1.0)
    first = next(output for output in finish(engine)[number] if output.token is not None)
    wanted = torch.log_softmax(torch.tensor(tiny.reference_logits(read, tiny.tensors())), -1)
    assert first.prompt_logprobs is not None
    assert [one.token for one in first.prompt_logprobs] == read[1:]
    for place, one in enumerate(first.prompt_logprobs):
        assert abs(one.logprob - float(wanted[place, read[place + 1]])) < 1e-3
        assert [token for token, _ in one.top] == wanted[place].topk(3).indices.tolist()


def test_a_probe_is_answered_though_the_cache_is_full(folder: Path) -> None:
    engine = make_engine(folder, blocks=2 + 3, max_sequences=1)
    engine.add(prompt(0, 9), replace(GREEDY, max_tokens=3), arrival=0.0)
    engine.step(0.0)
    assert engine.scheduler.pool.free == 0
    number = engine.add([0], replace(GREEDY, max_tokens=1), arrival=0.0, probe=True)
    outputs = [output for output in engine.step(0.0) if output.number == number]
    assert [(output.token is not None, output.finish) for output in outputs] == [(True, Finish.LENGTH)]
    assert engine.batch == 1


def test_when_memory_is_short_the_newest_is_given_up(folder: Path) -> None:
    engine = make_engine(folder)
    kept = engine.add(prompt(0, 3), GREEDY, arrival=0.0)
    newest = engine.add(prompt(1, 3), GREEDY, arrival=0.0)
    shed = engine.shed_newest()
    assert shed is not None
    assert (shed.number, shed.finish) == (newest, Finish.ERROR)
    assert list(finish(engine)) == [kept]


def test_an_engine_that_has_ended_all_is_as_new(folder: Path) -> None:
    engine = make_engine(folder)
    for seed in range(5):
        engine.add(prompt(seed, 5), GREEDY, arrival=0.0)
    engine.step(0.0)
    assert len(engine.abort_all()) == 5
    assert engine.idle
    assert engine.scheduler.pool.used == 0
    assert not engine._sequences
    assert not engine._draws


def test_a_text_that_is_in_the_cache_already_gives_the_same_tokens(folder: Path) -> None:
    asked = [prompt(0, 24) + prompt(seed, 7) for seed in range(1, 4)]
    engine = make_engine(folder)
    found = []
    for place, one in enumerate(asked):
        number = engine.add(one, GREEDY, arrival=float(place))
        found.append(tokens(finish(engine)[number]))
    assert engine.scheduler.prefix_hits == 2 * 24
    assert found == [alone(folder, one) for one in asked]


def test_a_conversation_that_goes_on_finds_its_own_answer(folder: Path) -> None:
    engine = make_engine(folder)
    first = engine.add(prompt(0, 10), GREEDY, arrival=0.0)
    answer = tokens(finish(engine)[first])
    more = prompt(0, 10) + answer + prompt(1, 3)
    second = engine.add(more, GREEDY, arrival=1.0)
    assert tokens(finish(engine)[second]) == alone(folder, more)
    assert engine.scheduler.prefix_hits == 20


def test_equal_keys_of_different_texts_change_no_token(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix, "link", lambda parent, tokens: b"same")
    asked = [prompt(seed, 17) for seed in range(4)]
    engine = make_engine(folder)
    for place, one in enumerate(asked * 2):
        number = engine.add(one, GREEDY, arrival=float(place))
        assert tokens(finish(engine)[number]) == alone(folder, one)


def test_log_probabilities_of_a_prompt_are_whole_though_its_blocks_are_known(folder: Path) -> None:
    params = replace(GREEDY, prompt_logprobs=True, max_tokens=1)
    engine = make_engine(folder)
    for _ in range(2):
        number = engine.add(prompt(0, 21), params, arrival=0.0)
        (first,) = (one.prompt_logprobs for one in finish(engine)[number] if one.prompt_logprobs is not None)
        assert len(first) == 20
