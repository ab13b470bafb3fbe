"""Decoding steps that are captured as CUDA graphs, beside the plain way."""

import threading
from pathlib import Path

import pytest
import torch
from backstay_runtime import machine
from backstay_runtime.batch import Slice
from backstay_runtime.graphs import decoder as graphs
from backstay_runtime.graphs.capture import CudaGraphs
from backstay_runtime.model.linear import Dtype, Quantization
from backstay_runtime.model.load import load_llama
from backstay_runtime.runner import Runner

from tests.unit.runtime import tiny
from tests.unit.runtime.decoding import BLOCK, BLOCKS, FAMILIES, step_of

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no accelerator"),
]

OFTEN = graphs.WORTH
BATCHES = ([5], [40, 3, 17, 8, 60], [5, 9], [2], [63] * 9, [5, 90, 1])
"""Positions of steps, of a shape of its own each."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shape is captured when it first comes."""
    monkeypatch.setattr(graphs, "WORTH", 1)


def pair_of(
    folder: Path, dtype: Dtype, quantization: Quantization = Quantization.NONE, capture: CudaGraphs | None = None
) -> tuple[Runner, Runner]:
    """One that captures and one that does not, with the same numbers in their caches."""
    model = load_llama(folder, dtype=dtype, quantization=quantization, device=machine.device(), positions=256)
    captured = Runner(model, blocks=BLOCKS, block_size=BLOCK, threads=1, capture=capture)
    plain = Runner(model, blocks=BLOCKS, block_size=BLOCK)
    numbers = torch.randn(2, BLOCKS, BLOCK, 2, 2, 8, generator=torch.Generator().manual_seed(1))
    numbers[:, :2] = 0
    for runner in (captured, plain):
        runner._caches[0].whole[:, :BLOCKS] = numbers.to(runner._caches[0].whole)
    return captured, plain


def off(captured: Runner, plain: Runner, step: list[Slice]) -> float:
    """How far the farthest logit is from the plain way's."""
    rows = range(len(step))
    (found, _), (wanted, sorted_) = captured.run(step), plain.run(step)
    order = [sorted_[one.number] for one in step]
    return float((captured.logits(found, rows) - plain.logits(wanted, order)).abs().max())


def graphs_of(runner: Runner) -> CudaGraphs:
    """How the runner captures."""
    capture = runner._decoder._capture  # type: ignore[union-attr]
    assert isinstance(capture, CudaGraphs)
    return capture


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dtype", "most"), [(Dtype.FLOAT32, 1e-2), (Dtype.FLOAT16, 0.3), (Dtype.BFLOAT16, 3.0)])
@pytest.mark.parametrize("quantization", list(Quantization))
def test_captured_steps_give_what_the_plain_way_gives(
    tmp_path: Path, family: str, dtype: Dtype, most: float, quantization: Quantization
) -> None:
    config = {**tiny.CONFIG, "architectures": [family], "intermediate_size": 96}
    captured, plain = pair_of(tiny.write(tmp_path, tiny.tensors(config), config), dtype, quantization)
    for seed, positions in enumerate((*BATCHES, *BATCHES)):
        assert off(captured, plain, step_of(positions, seed)) < most
    assert len(graphs_of(captured)._graphs) == len(BATCHES)
    captured.close()


def test_padding_rows_change_no_other_block(tmp_path: Path) -> None:
    captured, _ = pair_of(tiny.write(tmp_path), Dtype.FLOAT32)
    cache = captured._caches[0].whole
    for seed, positions in enumerate(BATCHES):
        step, before = step_of(positions, seed), cache[:, :BLOCKS].clone()
        captured.run(step)
        written = {(one.blocks[one.start // BLOCK], one.start % BLOCK) for one in step}
        changed = (cache[:, :BLOCKS] != before).any(dim=0).flatten(2).any(dim=2).nonzero().tolist()
        assert {(block, at) for block, at in changed} <= written
    captured.close()


def test_without_memory_for_them_nothing_is_captured(tmp_path: Path) -> None:
    capture = CudaGraphs(machine.device(), most_bytes=0)
    captured, plain = pair_of(tiny.write(tmp_path), Dtype.FLOAT32, capture=capture)
    for seed, positions in enumerate(BATCHES):
        assert off(captured, plain, step_of(positions, seed)) < 1e-2
    assert not capture._graphs


def test_their_memory_stays_near_its_bound_and_comes_back_when_they_are_closed(tmp_path: Path) -> None:
    capture = CudaGraphs(machine.device(), most_bytes=64 << 20)
    captured, _ = pair_of(tiny.write(tmp_path), Dtype.FLOAT16, capture=capture)
    captured.run(step_of([5], 0))  # libraries take their own memory at the first one, and keep it
    captured.run(step_of([5], 0))
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = machine.device_memory_left(machine.device())
    for seed in range(60):
        captured.run(step_of([seed] * (1 + seed % 9), seed))
    assert capture.bytes < 128 << 20
    captured.close()
    assert machine.device_memory_left(machine.device()) >= before - (2 << 20)


def test_a_computation_that_cannot_be_captured_leaves_the_device_as_it_was(tmp_path: Path) -> None:
    device = machine.device()
    capture, numbers = CudaGraphs(device), torch.ones(4, device=device)

    def asks() -> torch.Tensor:
        return numbers * float(numbers.sum())

    with pytest.raises(RuntimeError):
        capture.capture(asks)
    captured, plain = pair_of(tiny.write(tmp_path), Dtype.FLOAT32)
    assert off(captured, plain, step_of([5, 9], 0)) < 1e-2


def test_a_model_may_be_loaded_by_another_thread_meanwhile(tmp_path: Path) -> None:
    folder, ended = tiny.write(tmp_path), threading.Event()
    captured, plain = pair_of(folder, Dtype.FLOAT32)
    failed: list[BaseException] = []

    def load() -> None:
        try:
            while not ended.is_set():
                load_llama(folder, dtype=Dtype.FLOAT32, device=machine.device(), positions=256)
        except BaseException as why:
            failed.append(why)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for seed, positions in enumerate((*BATCHES, *BATCHES)):
            assert off(captured, plain, step_of(positions, seed)) < 1e-2
    finally:
        ended.set()
        thread.join()
    assert not failed
    assert len(graphs_of(captured)._graphs) == len(BATCHES)


def test_nothing_is_captured_before_a_pod_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "WORTH", OFTEN)
    captured, _ = pair_of(tiny.write(tmp_path), Dtype.FLOAT32)
    with torch.inference_mode():
        captured.warm_up(1)
        for _ in range(5):  # probes: one token each
            captured.run([Slice(0, [0], 0, [1])])
    assert not graphs_of(captured)._graphs
    with torch.inference_mode():
        for _ in range(OFTEN):
            captured.run(step_of([5, 9], 0))
    assert len(graphs_of(captured)._graphs) == 1
