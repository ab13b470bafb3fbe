import pytest
from backstay_runtime.kv import prefix
from backstay_runtime.kv.blocks import PROBE_BLOCK, BlockPool
from backstay_runtime.sampling.params import SamplingParams
from backstay_runtime.schedule.batching import Batching
from backstay_runtime.schedule.priority import Priority
from backstay_runtime.schedule.scheduler import Chunk, Scheduler, Step
from backstay_runtime.schedule.sequence import Sequence
from hypothesis import given, settings
from hypothesis import strategies as st

BLOCK = 4


def sequence(
    number: int, length: int, *, most: int = 8, deadline: float | None = None, probe: bool = False
) -> Sequence:
    params = SamplingParams(max_tokens=most)
    return Sequence(number, [0] * length, length, params, float(number), deadline, probe)


def scheduler(blocks: int = 66, *, most: int = 4, step_tokens: int = 16) -> Scheduler:
    return Scheduler(BlockPool(blocks, BLOCK), max_sequences=most, step_tokens=step_tokens)


def play(one: Scheduler, now: float = 0.0) -> Step:
    """A step, with a token for each sequence that samples; those that have all leave."""
    step = one.schedule(now)
    for chunk in step.chunks:
        chunk.sequence.computed = chunk.end
        if chunk.end == len(chunk.sequence.tokens):
            chunk.sequence.tokens.append(0)
            if len(chunk.sequence.output) >= chunk.sequence.params.max_tokens:
                one.remove(chunk.sequence)
    return step


def counts(step: Step) -> dict[int, int]:
    return {chunk.sequence.number: chunk.count for chunk in step.chunks}


def test_a_long_prompt_is_read_in_chunks_of_the_budget() -> None:
    one = scheduler()
    one.add(sequence(0, 40))
    assert [counts(play(one)) for _ in range(4)] == [{0: 16}, {0: 16}, {0: 8}, {0: 1}]


def test_those_that_decode_come_before_a_long_prompt() -> None:
    one = scheduler()
    one.add(sequence(0, 3))
    play(one)
    one.add(sequence(1, 40))
    assert counts(play(one)) == {0: 1, 1: 15}


def test_no_more_run_at_once_than_may() -> None:
    one = scheduler(most=2)
    for number in range(3):
        one.add(sequence(number, 3, most=2))
    assert set(counts(play(one))) == {0, 1}
    assert set(counts(play(one))) == {0, 1}
    assert set(counts(play(one))) == {2}


def test_without_blocks_the_youngest_is_put_back_and_the_oldest_gets_on() -> None:
    one = scheduler(blocks=2 + 4)
    one.add(sequence(0, 7))
    one.add(sequence(1, 7))
    play(one)
    play(one)
    step = play(one)
    assert step.preempted == 1
    assert counts(step) == {0: 1}
    assert [waiting.number for waiting in one.waiting] == [1]
    assert next(iter(one.waiting)).blocks == []


def test_a_sequence_put_back_is_computed_again_with_what_it_had_written() -> None:
    one = scheduler(blocks=2 + 4)
    one.add(sequence(0, 7, most=4))
    one.add(sequence(1, 7, most=4))
    while one.waiting or not one.running or one.running[0].number == 0:
        step = play(one)
    again = step.chunks[0]
    assert (again.start, again.count) == (0, len(again.sequence.tokens) - 1)
    assert again.count > 7


def test_a_prompt_that_can_never_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="a sequence of 25 tokens"):
        scheduler(blocks=2 + 6).add(sequence(0, 17, most=8))


def test_an_expired_sequence_costs_nothing_more() -> None:
    one = scheduler(most=1)
    one.add(sequence(0, 3, deadline=5.0))
    one.add(sequence(1, 3, deadline=5.0))
    play(one, 4.0)
    step = play(one, 5.0)
    assert {late.number for late in step.expired} == {0, 1}
    assert step.chunks == []
    assert one.idle
    assert one.pool.used == 0


def test_a_probe_runs_though_nothing_else_fits() -> None:
    one = scheduler(blocks=2 + 4, most=1)
    one.add(sequence(0, 7))
    play(one)
    one.add(sequence(1, 7))
    one.add(sequence(2, 1, probe=True))
    step = play(one)
    assert 2 in counts(step)
    assert step.chunks[0].sequence.blocks == [PROBE_BLOCK]
    assert one.pool.used == 2


def test_probes_share_a_block_and_run_one_after_another() -> None:
    one = scheduler()
    for number in range(2):
        one.add(sequence(number, 1, most=1, probe=True))
    assert [set(counts(play(one))) for _ in range(2)] == [{0}, {1}]


def test_a_sequence_is_said_to_have_started_once() -> None:
    one = scheduler(blocks=2 + 4)
    one.add(sequence(0, 7))
    one.add(sequence(1, 7))
    started = [each.number for _ in range(20) for each in play(one).started]
    assert started == [0, 1]


def arrivals() -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """(step of arrival, prompt length, tokens to write), each of which fits into 8 blocks."""
    one = st.tuples(st.integers(0, 12), st.integers(1, 20), st.integers(1, 12))
    return st.lists(one, min_size=1, max_size=10)


@settings(max_examples=150, deadline=None)
@given(arrivals(), st.integers(8, 14), st.integers(4, 24))
def test_whatever_comes_all_finish_and_no_block_is_shared_or_lost(
    coming: list[tuple[int, int, int]], blocks: int, step_tokens: int
) -> None:
    one = scheduler(blocks=2 + blocks, step_tokens=step_tokens)
    written: dict[int, int] = {}
    for at in range(2000):
        for number, (arrives, length, most) in enumerate(coming):
            if arrives == at:
                one.add(sequence(number, length, most=most))
        step = play(one)
        _check(one, step, step_tokens)
        for chunk in step.chunks:
            written[chunk.sequence.number] = len(chunk.sequence.output)
        if at > 12 and one.idle:
            break
    assert one.idle
    assert one.pool.used == 0
    assert written == {number: most for number, (_, _, most) in enumerate(coming)}


def _check(one: Scheduler, step: Step, step_tokens: int) -> None:
    assert sum(chunk.count for chunk in step.chunks) <= step_tokens
    assert len({chunk.sequence.number for chunk in step.chunks}) == len(step.chunks)
    held = [block for each in one.running for block in each.blocks]
    assert len(held) == len(set(held)) == one.pool.used
    for each in one.running:
        assert each.computed <= len(each.blocks) * BLOCK
    assert len(one.running) <= 4
    assert all(each.blocks == [] for each in one.waiting)


def test_a_budget_below_the_number_of_sequences_is_refused() -> None:
    with pytest.raises(ValueError, match="step_tokens 3 must be at least max_sequences 4"):
        scheduler(step_tokens=3)


def shared(number: int, tokens: list[int], *, most: int = 4, salt: str = "") -> Sequence:
    one = Sequence(number, list(tokens), len(tokens), SamplingParams(max_tokens=most), float(number))
    one.root = prefix.root("model", salt)
    return one


def play_shared(one: Scheduler, now: float = 0.0) -> Step:
    """As `play`, with what was computed told to the scheduler."""
    step = one.schedule(now)
    for chunk in step.chunks:
        one.computed(chunk)
        if chunk.end == len(chunk.sequence.tokens):
            chunk.sequence.tokens.append(100 + chunk.sequence.number)
            if len(chunk.sequence.output) >= chunk.sequence.params.max_tokens:
                one.remove(chunk.sequence)
    return step


def test_a_known_beginning_is_not_computed_again() -> None:
    one = scheduler()
    one.add(shared(0, [1, 2, 3, 4, 5, 6, 7, 8, 9]))
    while not one.idle:
        play_shared(one)
    one.add(shared(1, [1, 2, 3, 4, 5, 6, 7, 8, 10, 11]))
    step = play_shared(one)
    assert [(chunk.start, chunk.count) for chunk in step.chunks] == [(8, 2)]
    assert (one.prefix_tokens, one.prefix_hits) == (9 + 10, 8)


def test_of_a_text_that_is_known_to_its_end_one_block_is_computed_for_its_logits() -> None:
    one = scheduler()
    one.add(shared(0, [1, 2, 3, 4, 5, 6, 7, 8]))
    while not one.idle:
        play_shared(one)
    one.add(shared(1, [1, 2, 3, 4, 5, 6, 7, 8]))
    assert [(chunk.start, chunk.count) for chunk in play_shared(one).chunks] == [(4, 4)]


def test_the_prompt_of_several_choices_is_read_once() -> None:
    one = scheduler()
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    for number in range(3):
        one.add(shared(number, prompt))
    assert counts(play_shared(one)) == {0: 9}
    assert counts(play_shared(one)) == {0: 1, 1: 1, 2: 1}
    assert one.pool.used == 2 + 3


def test_with_another_salt_it_is_read_anew() -> None:
    one = scheduler(step_tokens=32)
    one.add(shared(0, [1, 2, 3, 4, 5]))
    one.add(shared(1, [1, 2, 3, 4, 5], salt="tenant"))
    assert counts(play_shared(one)) == {0: 5, 1: 5}


def test_one_that_waits_for_anothers_prompt_goes_on_when_that_one_is_taken_out() -> None:
    one = scheduler(step_tokens=4)
    first, second = shared(0, [1] * 9), shared(1, [1] * 9)
    one.add(first)
    one.add(second)
    assert counts(play_shared(one)) == {0: 4}
    one.remove(first)
    step = play_shared(one)
    assert [(chunk.sequence.number, chunk.start) for chunk in step.chunks] == [(1, 4)]


def test_a_higher_class_runs_first_and_those_who_wait_keep_their_places() -> None:
    one = scheduler(most=1)
    for number, priority in enumerate((Priority.LOW, Priority.NORMAL, Priority.HIGH)):
        added = sequence(number, 2, most=1)
        added.priority = priority
        one.add(added)
    assert [set(counts(play(one))) for _ in range(3)] == [{2}, {1}, {0}]


def test_a_static_batch_takes_what_waits_and_nobody_joins_it() -> None:
    one = Scheduler(BlockPool(66, BLOCK), max_sequences=4, step_tokens=4, batching=Batching.STATIC)
    one.add(sequence(0, 3, most=3))
    one.add(sequence(1, 3, most=2))
    play(one)
    one.add(sequence(2, 1, most=1))
    assert [sorted(counts(play(one))) for _ in range(4)] == [[0, 1], [0, 1], [2], []]


def test_a_dynamic_batch_says_how_long_it_waits_to_fill() -> None:
    one = Scheduler(BlockPool(66, BLOCK), max_sequences=4, step_tokens=16, batching=Batching.DYNAMIC)
    one.add(sequence(0, 3))
    early = one.schedule(0.02)
    assert early.chunks == []
    assert early.wait == pytest.approx(0.03)
    assert counts(play(one, 0.05)) == {0: 3}


def texts() -> st.SearchStrategy[list[tuple[int, list[int], int]]]:
    """(step of arrival, prompt, tokens to write): prompts of few different tokens, so that many begin alike."""
    prompt = st.lists(st.integers(0, 1), min_size=1, max_size=20)
    return st.lists(st.tuples(st.integers(0, 12), prompt, st.integers(1, 12)), min_size=1, max_size=10)


@settings(max_examples=150, deadline=None)
@given(texts(), st.integers(8, 14), st.integers(4, 24), st.sampled_from(Batching))
def test_with_shared_blocks_all_finish_and_each_block_holds_what_its_owners_think(
    coming: list[tuple[int, list[int], int]], blocks: int, step_tokens: int, batching: Batching
) -> None:
    one = Scheduler(BlockPool(2 + blocks, BLOCK), max_sequences=4, step_tokens=step_tokens, batching=batching)
    cache: dict[int, list[int]] = {}
    outputs: dict[int, int] = {}
    for at in range(3000):
        for number, (arrives, prompt, most) in enumerate(coming):
            if arrives == at:
                one.add(shared(number, prompt, most=most))
        step = one.schedule(at * 0.1)
        for chunk in step.chunks:
            _compute(cache, chunk)
            one.computed(chunk)
            if chunk.samples:
                chunk.sequence.tokens.append(len(chunk.sequence.tokens) % 2)
                outputs[chunk.sequence.number] = len(chunk.sequence.output)
                if len(chunk.sequence.output) >= chunk.sequence.params.max_tokens:
                    one.remove(chunk.sequence)
        assert {block for each in one.running for block in each.blocks} == set(one.pool.held)
        if at > 12 and one.idle:
            break
    assert one.idle
    assert one.pool.used == 0
    assert outputs == {number: most for number, (_, _, most) in enumerate(coming)}


def _compute(cache: dict[int, list[int]], chunk: Chunk) -> None:
    """Writes the chunk's tokens where keys and values would be, and reads all before them."""
    sequence = chunk.sequence
    for place in range(chunk.start, chunk.end):
        slots = cache.setdefault(sequence.blocks[place // BLOCK], [-1] * BLOCK)
        slots[place % BLOCK] = sequence.tokens[place]
    seen = [cache[sequence.blocks[place // BLOCK]][place % BLOCK] for place in range(chunk.end)]
    assert seen == sequence.tokens[: chunk.end]
