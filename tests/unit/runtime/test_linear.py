import pytest
import torch
from backstay_runtime.model import linear
from backstay_runtime.model.linear import Dtype, PackedFp16, PackedFp32, Plain, packer

CPU = torch.device("cpu")


def weights() -> torch.Tensor:
    return torch.randn(40, 24, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("rows", [1, 2, 7, 64, 130])
def test_packed_weights_give_the_exact_products_for_any_number_of_rows(rows: int) -> None:
    weight, given = weights(), torch.randn(rows, 24, generator=torch.Generator().manual_seed(2))
    found = packer(Dtype.FLOAT32, CPU)(weight)(given)
    assert torch.allclose(found, given @ weight.T, atol=1e-5)


def test_float16_products_are_right_to_float16() -> None:
    weight, given = weights(), torch.randn(3, 24, generator=torch.Generator().manual_seed(2))
    found = packer(Dtype.FLOAT16, CPU)(weight)(given)
    assert torch.allclose(found, given @ weight.T, atol=2e-2)


def test_a_weight_beyond_float16_is_kept_exact() -> None:
    weight = weights()
    weight[3, 3] = 70_000.0
    assert not isinstance(packer(Dtype.FLOAT16, CPU)(weight), PackedFp16)


def test_a_kernel_that_gives_wrong_products_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PackedFp32, "__call__", lambda _self, rows: torch.zeros(len(rows), 48))
    assert packer(Dtype.AUTO, CPU) is Plain


def test_a_kernel_that_does_not_exist_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_self: object, _weight: torch.Tensor) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(linear.PackedFp32, "__init__", missing)
    assert packer(Dtype.FLOAT32, CPU) is Plain
