from pathlib import Path

import numpy as np
import pytest
import torch
from backstay_runtime.batch import Slice
from backstay_runtime.model.linear import Dtype
from backstay_runtime.model.load import load_llama
from backstay_runtime.runner import Runner

from . import tiny
from .machinery import prompt

TOKENS = prompt(3, 23)


def runner_of(folder: Path, dtype: Dtype = Dtype.FLOAT32) -> Runner:
    model = load_llama(folder, dtype=dtype, device=torch.device("cpu"), positions=256)
    return Runner(model, blocks=32, block_size=4)


def logits_in_pieces(runner: Runner, sizes: list[int]) -> torch.Tensor:
    """Logits of TOKENS, computed in slices of these sizes."""
    found, start, blocks = [], 0, list(range(2, 8))
    for size in sizes:
        hidden, first = runner.run([Slice(0, TOKENS[start : start + size], start, blocks)])
        found.append(runner.logits(hidden, range(first[0], first[0] + size)))
        start += size
    return torch.cat(found)


@pytest.mark.parametrize("sizes", [[23], [1] * 23, [8, 8, 7], [22, 1], [5, 1, 1, 16]])
def test_the_decoder_is_the_reference_however_the_prompt_is_cut(folder: Path, sizes: list[int]) -> None:
    wanted = tiny.reference_logits(TOKENS, tiny.tensors())
    found = logits_in_pieces(runner_of(folder), sizes).double().numpy()
    assert np.abs(found - wanted).max() < 1e-4


@pytest.mark.parametrize(
    "changed",
    [{"tie_word_embeddings": False}, {"num_key_value_heads": 4}, {"num_key_value_heads": 1}, {"head_dim": 16}],
)
def test_the_decoder_is_the_reference_in_other_shapes(tmp_path: Path, changed: dict[str, int]) -> None:
    config = {**tiny.CONFIG, **changed}
    weights = tiny.tensors(config)
    wanted = tiny.reference_logits(TOKENS, weights, config)
    found = logits_in_pieces(runner_of(tiny.write(tmp_path, weights, config)), [20, 3]).double().numpy()
    assert np.abs(found - wanted).max() < 1e-4


def test_float16_weights_stay_near_the_reference(folder: Path) -> None:
    wanted = tiny.reference_logits(TOKENS, tiny.tensors())
    found = logits_in_pieces(runner_of(folder, Dtype.FLOAT16), [23]).double().numpy()
    assert 1e-6 < np.abs(found - wanted).max() < 0.1


def test_sequences_in_one_batch_do_not_see_each_other(folder: Path) -> None:
    """Lengths far apart, so that the batch is grouped; reading and decoding in the same step."""
    runner = runner_of(folder)
    others = [TOKENS[:2], TOKENS[:21], TOKENS[:9]]
    tables = [[10], [11, 12, 13, 14, 15, 16], [17, 18, 19]]
    for number, (one, table) in enumerate(zip(others, tables, strict=True)):
        runner.run([Slice(number, one[:-1], 0, table)])
    step = [
        Slice(number, one[-1:], len(one) - 1, table)
        for number, (one, table) in enumerate(zip(others, tables, strict=True))
    ]
    step.insert(1, Slice(9, TOKENS[:7], 0, [20, 21]))
    hidden, first = runner.run(step)
    for number, read in [*enumerate(others), (9, TOKENS[:7])]:
        row = first[number] + (6 if number == 9 else 0)
        found = runner.logits(hidden, [row])[0].double().numpy()
        assert np.abs(found - tiny.reference_logits(read, tiny.tensors())[-1]).max() < 1e-4


def test_logits_come_in_the_order_of_the_rows_asked_for(folder: Path) -> None:
    runner = runner_of(folder)
    hidden, _ = runner.run([Slice(0, TOKENS[:3], 0, [2])])
    assert torch.allclose(runner.logits(hidden, [2, 1, 0]), runner.logits(hidden, [0, 1, 2]).flip(0), atol=1e-5)


@pytest.mark.parametrize("rows", [9, 13, 17])
def test_rows_that_fill_up_a_batch_change_nothing_and_are_stored_nowhere(folder: Path, rows: int) -> None:
    runner = runner_of(folder)
    hidden, first = runner.run([Slice(0, TOKENS[:rows], 0, list(range(2, 8)))])
    assert len(hidden) == rows
    found = runner.logits(hidden, range(first[0], rows)).double().numpy()
    assert np.abs(found - tiny.reference_logits(TOKENS[:rows], tiny.tensors())).max() < 1e-4
    assert not any(bool(layer[:2].any()) for layer in runner._caches[0].layers)


def test_warming_up_leaves_the_cache_of_requests_alone(folder: Path) -> None:
    runner = runner_of(folder)
    runner.warm_up(1)
    assert not any(bool(layer[2:].any()) for layer in runner._caches[0].layers)
