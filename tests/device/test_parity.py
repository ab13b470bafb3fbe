"""The decoder on an accelerator beside the reference; run with `pytest tests/device` where there is one."""

from pathlib import Path

import pytest
import torch
from backstay_runtime import machine
from backstay_runtime.batch import Slice
from backstay_runtime.model.linear import Dtype
from backstay_runtime.model.load import load_llama
from backstay_runtime.runner import Runner

from tests.unit.runtime import tiny
from tests.unit.runtime.machinery import prompt

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no accelerator"),
]


def off(folder: Path, dtype: Dtype, spans: list[tuple[torch.device, range]]) -> float:
    """The largest difference of a logit, after a prompt that is read in two pieces and a token that is decoded."""
    model = load_llama(folder, dtype=dtype, device=spans[0][0], positions=256, spans=spans)
    runner, tokens = Runner(model, blocks=32, block_size=4, threads=1), prompt(3, 23)
    for start, end in ((0, 9), (9, 22), (22, 23)):
        hidden, first = runner.run([Slice(0, tokens[start:end], start, list(range(2, 8)))])
    found = runner.logits(hidden, [first[0]])[0].double().cpu()
    wanted = torch.from_numpy(tiny.reference_logits(tokens, tiny.tensors())[-1])
    return float((found - wanted).abs().max())


def test_float32_gives_the_reference_logits(tmp_path: Path) -> None:
    assert off(tiny.write(tmp_path), Dtype.FLOAT32, [(machine.device(), range(2))]) < 1e-3


def test_float16_stays_near_the_reference(tmp_path: Path) -> None:
    assert off(tiny.write(tmp_path), Dtype.AUTO, [(machine.device(), range(2))]) < 0.2


def test_bfloat16_stays_near_the_reference(tmp_path: Path) -> None:
    assert off(tiny.write(tmp_path), Dtype.BFLOAT16, [(machine.device(), range(2))]) < 2.0


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one accelerator")
def test_layers_on_two_accelerators_give_the_reference_logits(tmp_path: Path) -> None:
    spans = [(device, range(number, number + 1)) for number, device in enumerate(machine.devices()[:2])]
    assert off(tiny.write(tmp_path), Dtype.FLOAT32, spans) < 1e-3
