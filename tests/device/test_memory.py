"""How much of an accelerator's memory a model takes."""

from pathlib import Path

import pytest
import torch
from backstay_runtime import assemble, machine
from backstay_runtime.model.linear import Dtype
from backstay_runtime.model.placement import MEMORY_FRACTION

from tests.unit.runtime import tiny

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no accelerator"),
]

LEFT = 256 << 20


@pytest.fixture
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that says it has little memory, so that the cache takes all it may within a second."""
    monkeypatch.setattr(machine, "device_memory_left", lambda _device: LEFT)


@pytest.mark.usefixtures("_little")
def test_weights_and_cache_stay_below_the_fraction_however_many_sequences_are_allowed(tmp_path: Path) -> None:
    before = torch.cuda.memory_allocated()
    model = assemble.load(
        tiny.write(tmp_path), dtype=Dtype.AUTO, max_model_len=None, max_num_seqs=100_000, queue_length=4
    )
    taken = torch.cuda.memory_allocated() - before
    assert LEFT * 0.2 < taken < LEFT * MEMORY_FRACTION
    model.close()
