"""Layers spread over several devices; here each is the CPU, and says how much memory it has."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from backstay_runtime.assemble import cache_memory, dispatch
from backstay_runtime.batch import Slice
from backstay_runtime.model.linear import Dtype, Quantization
from backstay_runtime.model.load import load_llama, weight_needs
from backstay_runtime.model.placement import MEMORY_FRACTION, Needs
from backstay_runtime.runner import Runner

from . import tiny
from .machinery import prompt

CPU, FIRST, SECOND = torch.device("cpu"), torch.device("cuda", 0), torch.device("cuda", 1)
CONFIG = {**tiny.CONFIG, "num_hidden_layers": 5, "tie_word_embeddings": False, "intermediate_size": 96}


@pytest.mark.parametrize("ends", [[5], [1, 5], [2, 3, 5], [0, 4, 5]])
def test_a_model_over_several_devices_gives_the_reference_logits(tmp_path: Path, ends: list[int]) -> None:
    weights = tiny.tensors(CONFIG)
    folder = tiny.write(tmp_path, weights, CONFIG)
    spans = [(CPU, range(a, b)) for a, b in pairwise([0, *ends])]
    model = load_llama(folder, dtype=Dtype.FLOAT32, device=CPU, positions=256, spans=spans)
    assert [stage.layers for stage in model.stages] == [len(layers) for _, layers in spans if layers]
    runner, tokens = Runner(model, blocks=32, block_size=4, threads=1), prompt(3, 9)
    blocks = [2, 3, 4]
    runner.run([Slice(0, tokens[:8], 0, blocks)])
    hidden, first = runner.run([Slice(0, tokens[8:], 8, blocks)])
    found = runner.logits(hidden, [first[0]])[0].double()
    wanted = torch.from_numpy(tiny.reference_logits(tokens, weights, CONFIG)[-1])
    assert float((found - wanted).abs().max()) < 1e-4


def test_a_tied_head_is_copied_to_the_last_device(tmp_path: Path) -> None:
    folder = tiny.write(tmp_path)
    spans = [(CPU, range(1)), (CPU, range(1, 2))]
    model = load_llama(folder, dtype=Dtype.FLOAT32, device=CPU, positions=64, spans=spans)
    tokens = torch.arange(5)
    assert torch.equal(model.head.pick(tokens), model.embed(tokens))


@pytest.mark.parametrize("quantization", list(Quantization))
def test_what_a_model_takes_is_known_before_it_is_loaded(tmp_path: Path, quantization: Quantization) -> None:
    folder = tiny.write(tmp_path, tiny.tensors(CONFIG), CONFIG)
    needs = weight_needs(folder, Dtype.FLOAT32, quantization, CPU)
    model = load_llama(folder, dtype=Dtype.FLOAT32, quantization=quantization, device=CPU, positions=64)
    assert needs.bytes == pytest.approx(model.bytes, rel=0.05)


def test_layers_go_to_the_next_device_where_the_first_is_full() -> None:
    free = {FIRST: int(35 / MEMORY_FRACTION) << 20, SECOND: 100 << 20}
    needs = Needs(0, (10 << 20,) * 5, 0)
    assert dispatch(needs, [FIRST, SECOND], free.__getitem__) == [(FIRST, range(3)), (SECOND, range(3, 5))]


def test_one_device_takes_all_and_is_asked_for_nothing() -> None:
    assert dispatch(Needs(0, (1 << 60,), 0), [CPU], lambda _device: 0) == [(CPU, range(1))]


def test_the_cache_is_as_large_as_the_fullest_device_allows() -> None:
    left = {FIRST: 300, SECOND: 1000}
    assert cache_memory([(FIRST, range(3)), (SECOND, range(3, 5))], left.__getitem__) == 500
    assert cache_memory([(CPU, range(5))], lambda _device: 700) == 700
