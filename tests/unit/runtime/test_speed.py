import pytest
import torch
from backstay_runtime import speed
from backstay_runtime.model.held import Held

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_full_precision_is_never_refused() -> None:
    assert speed.slower(Held.FLOAT32, CPU) is None
    assert speed.slower(Held.FLOAT16, GPU) is None


def test_a_quantization_that_is_slower_is_refused_with_both_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "measured", lambda _held: (0.0063, 0.0021))
    said = speed.slower(Held.INT4, CPU)
    assert said is not None
    assert "takes 6.30 ms on this processor, and 2.10 ms in float32" in said
    assert "forceQuantization" in said


def test_a_quantization_that_is_as_quick_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "measured", lambda _held: (0.00105, 0.001))
    assert speed.slower(Held.INT8, CPU) is None


def test_on_a_gpu_it_is_refused_unmeasured() -> None:
    said = speed.slower(Held.INT8, GPU)
    assert said is not None
    assert "slower than float16" in said


@pytest.mark.parametrize("held", [Held.INT8, Held.INT4])
def test_both_ways_are_measured_on_this_machine(monkeypatch: pytest.MonkeyPatch, held: Held) -> None:
    monkeypatch.setattr(speed, "_ROWS", 256)
    assert min(speed.measured(held)) > 0
