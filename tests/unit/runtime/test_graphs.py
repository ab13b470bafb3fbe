"""Recorded decoding steps beside the plain way, on the tiny model."""

import logging
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from backstay_runtime.batch import Slice
from backstay_runtime.engine import Engine
from backstay_runtime.graphs import decoder as graphs
from backstay_runtime.kv.blocks import PADDING_BLOCK, RESERVED_BLOCKS, BlockPool
from backstay_runtime.model.linear import Dtype, Quantization
from backstay_runtime.model.load import load_llama
from backstay_runtime.runner import Runner
from backstay_runtime.schedule.scheduler import Scheduler
from hypothesis import given, settings
from hypothesis import strategies as st

from . import tiny
from .decoding import BLOCK, BLOCKS, FAMILIES, step_of
from .machinery import GREEDY, alone, finish, prompt, tokens
from .recorded import Recorded

CPU = torch.device("cpu")
NEAR = 1e-3
"""Hidden states are in the tens, and a layer enlarges what the one before it rounded; a wrong block is off by whole
numbers."""
OFTEN = graphs.WORTH


@dataclass
class Pair:
    """The same model twice over caches that hold the same: one records its decoding steps, one does not."""

    recorded: Runner
    plain: Runner
    capture: Recorded

    def forget(self, seed: int) -> None:
        """Both caches anew: all blocks but the reserved ones hold random numbers."""
        numbers = torch.randn(2, BLOCKS, BLOCK, 2, 2, 8, generator=torch.Generator().manual_seed(seed))
        numbers[:, :RESERVED_BLOCKS] = 0
        for runner in (self.recorded, self.plain):
            runner._caches[0].whole[:, :BLOCKS] = numbers

    @property
    def caches(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What they hold in the blocks that both have."""
        return self.recorded._caches[0].whole[:, :BLOCKS], self.plain._caches[0].whole[:, :BLOCKS]


def pair_of(
    folder: Path, dtype: Dtype = Dtype.FLOAT32, quantization: Quantization = Quantization.NONE, **given_: Recorded
) -> Pair:
    capture = given_.get("capture", Recorded())
    model = load_llama(folder, dtype=dtype, quantization=quantization, device=CPU, positions=256)
    return Pair(
        Runner(model, blocks=BLOCKS, block_size=BLOCK, threads=1, capture=capture),
        Runner(model, blocks=BLOCKS, block_size=BLOCK),
        capture,
    )


@pytest.fixture(scope="module")
def pair(folder: Path) -> Pair:
    return pair_of(folder)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shape is recorded when it first comes."""
    monkeypatch.setattr(graphs, "WORTH", 1)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shape is recorded when it is in a pod."""
    monkeypatch.setattr(graphs, "WORTH", OFTEN)


def steps() -> st.SearchStrategy[list[list[int]]]:
    """Positions of the rows of one step after another."""
    rows = st.lists(st.one_of(st.integers(0, 20), st.integers(0, 90)), min_size=1, max_size=9)
    return st.lists(rows, min_size=1, max_size=4)


@settings(max_examples=30)
@given(batches=steps(), seed=st.integers(0, 99))
def test_steps_of_any_sizes_one_after_another_give_what_the_plain_way_gives(
    pair: Pair, batches: list[list[int]], seed: int
) -> None:
    pair.forget(seed)
    for number, positions in enumerate(batches):
        step = step_of(positions, seed + number)
        (found, first), (wanted, sorted_) = pair.recorded.run(step), pair.plain.run(step)
        assert first == {number: number for number in range(len(positions))}
        order = [sorted_[one.number] for one in step]  # the plain way sorts rows by length where these are unequal
        assert torch.allclose(found, wanted[order], atol=NEAR)
        assert torch.allclose(
            pair.recorded.logits(found, range(len(step))), pair.plain.logits(wanted, order), atol=1e-4
        )


@settings(max_examples=30)
@given(batches=steps(), seed=st.integers(0, 99))
def test_padding_rows_change_no_block_in_use_and_not_the_padding_block(
    pair: Pair, batches: list[list[int]], seed: int
) -> None:
    pair.forget(seed)
    for number, positions in enumerate(batches):
        step = step_of(positions, seed + number)
        before = pair.caches[0].clone()
        pair.recorded.run(step)
        pair.plain.run(step)
        recorded, plain = pair.caches
        assert torch.allclose(recorded, plain, atol=NEAR)
        written = {(one.blocks[one.start // BLOCK], one.start % BLOCK) for one in step}
        changed = (recorded != before).any(dim=0).flatten(2).any(dim=2).nonzero().tolist()
        assert {(block, at) for block, at in changed} <= written
        assert not recorded[:, PADDING_BLOCK].any()


def test_a_result_outlives_the_next_replay(pair: Pair) -> None:
    pair.forget(1)
    first = pair.recorded.run(step_of([5, 9], 1))[0]
    kept = first.clone()
    pair.recorded.run(step_of([6, 10], 2))  # of the same shape
    assert torch.equal(first, kept)


def test_a_number_that_is_not_finite_stays_in_its_row_and_out_of_the_padding(folder: Path) -> None:
    weights = tiny.tensors()
    weights["model.embed_tokens.weight"][0] = float("nan")  # the token that padding rows have
    one = pair_of(tiny.write(folder.parent / "nan-of-padding", weights))
    for _ in range(2):
        hidden, _ = one.recorded.run([Slice(0, [6], 0, [2]), Slice(1, [7], 9, [3, 4, 5]), Slice(2, [6], 1, [6])])
        assert bool(hidden.isfinite().all())
    assert one.capture.recordings == 1


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("quantization", list(Quantization))
def test_every_family_and_way_of_holding_weights_can_be_recorded(
    tmp_path: Path, family: str, quantization: Quantization
) -> None:
    config = {**tiny.CONFIG, "architectures": [family], "intermediate_size": 96}
    one = pair_of(tiny.write(tmp_path, tiny.tensors(config), config), Dtype.BFLOAT16, quantization)
    one.forget(3)
    for seed in range(3):
        step = step_of([11, 2, 7], seed)
        assert torch.allclose(one.recorded.run(step)[0], one.plain.run(step)[0], atol=NEAR)
    assert one.capture.recordings == 1


@pytest.mark.usefixtures("late")
def test_a_shape_is_recorded_only_when_it_has_come_often(folder: Path) -> None:
    one = pair_of(folder)
    for _ in range(OFTEN - 1):
        one.recorded.run(step_of([5, 9], 1))
    assert one.capture.recordings == 0
    one.recorded.run(step_of([3], 1))
    assert one.capture.recordings == 0
    for _ in range(9):
        one.recorded.run(step_of([5, 9], 1))
    assert one.capture.recordings == 1


@pytest.mark.usefixtures("late")
def test_what_runs_before_a_pod_is_ready_records_nothing(folder: Path) -> None:
    one = pair_of(folder)
    one.recorded.warm_up(1)
    for _ in range(5):  # probes: one token each
        hidden, _ = one.recorded.run([Slice(0, [0], 0, [1])])
        one.recorded.logits(hidden, [0])
    assert one.capture.attempts == 0


def test_where_recording_fails_the_plain_way_goes_on_and_says_so_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = pair_of(folder, capture=Recorded(fails=RuntimeError("operation not permitted")))
    one.forget(0)
    for number in range(4):
        step = step_of([5, 9, 2][: number % 3 + 1], number)
        assert torch.allclose(one.recorded.run(step)[0], one.plain.run(step)[0], atol=NEAR)
    assert one.capture.attempts == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "operation not permitted" in caplog.text


def test_a_recording_that_failed_leaves_those_before_it(folder: Path) -> None:
    one = pair_of(folder)
    one.recorded.run(step_of([5], 0))
    one.capture.fails = torch.OutOfMemoryError("CUDA out of memory")
    one.recorded.run(step_of([5, 6], 0))
    attends = [backend.attention for backend in one.recorded._backends]
    one.recorded._backends.clear()  # the plain way is not taken
    assert attends
    one.recorded.run(step_of([7], 0))
    assert (one.capture.recordings, one.capture.attempts) == (1, 2)


def test_without_room_nothing_more_is_recorded(folder: Path) -> None:
    one = pair_of(folder)
    one.forget(0)
    one.recorded.run(step_of([5], 0))
    one.capture.room = False
    for positions in ([5, 6], [7], [40]):
        step = step_of(positions, 1)
        assert torch.allclose(one.recorded.run(step)[0], one.plain.run(step)[0], atol=NEAR)
    assert one.capture.recordings == 1


def test_no_more_than_so_many_are_recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 2)
    one = pair_of(folder)
    for positions in ([5], [5, 6], [5, 6, 7], [40], [5]):
        one.recorded.run(step_of(positions, 1))
    assert one.capture.recordings == 2


def test_closing_frees_all_recordings(folder: Path) -> None:
    one = pair_of(folder)
    one.recorded.run(step_of([5], 0))
    one.recorded.close()
    assert one.capture.closed
    assert not one.recorded._decoder._recorded  # type: ignore[union-attr]


def test_a_runner_without_a_way_of_recording_has_the_blocks_it_was_given(folder: Path) -> None:
    one = pair_of(folder)
    assert one.plain._caches[0].whole.shape[1] == BLOCKS
    assert one.recorded._caches[0].whole.shape[1] == BLOCKS + 1


def test_an_engine_that_records_writes_the_texts_that_it_writes_without(folder: Path) -> None:
    """Few blocks, so that sequences are also preempted and read anew, and a beginning that two share."""
    capture, blocks = Recorded(), 24
    model = load_llama(folder, dtype=Dtype.FLOAT32, device=CPU, positions=256)
    runner = Runner(model, blocks=blocks, block_size=BLOCK, threads=1, capture=capture)
    engine = Engine(runner, Scheduler(BlockPool(blocks, BLOCK), max_sequences=6, step_tokens=16), frozenset())
    prompts = [prompt(seed, length) for seed, length in enumerate((3, 17, 9, 1, 12, 5, 20))]
    prompts.append(prompts[1][:12] + prompt(8, 4))
    numbers = [engine.add(one, GREEDY, arrival=float(place)) for place, one in enumerate(prompts)]
    found = finish(engine)
    assert [tokens(found[number]) for number in numbers] == [alone(folder, one) for one in prompts]
    assert engine.preemptions > 0
    assert capture.recordings > 3


def test_a_prompt_is_never_recorded(pair: Pair) -> None:
    before = pair.capture.attempts
    pair.recorded.run([Slice(0, [1, 2, 3], 0, [2]), Slice(1, [4], 5, [3, 4])])
    assert pair.capture.attempts == before
