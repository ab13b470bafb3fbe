from typing import get_args

import pytest
import torch
from backstay_contract.serving import Serving
from backstay_runtime.model.held import FP16_MAX, GROUP, Held, Matrix
from backstay_runtime.model.linear import Dtype, Quantization, computed_in, held_as, table_held_as
from hypothesis import given
from hypothesis import strategies as st

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def weights(rows: int = 40, columns: int = 64, seed: int = 1) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@given(seed=st.integers(0, 1000), size=st.sampled_from([1e-4, 1.0, 50.0]))
def test_int8_is_off_by_half_a_step_of_its_row_at_most(seed: int, size: float) -> None:
    weight = weights(seed=seed) * size
    off = (Matrix.of(weight, Held.INT8).widened() - weight).abs()
    assert bool((off <= weight.abs().amax(dim=1, keepdim=True) / 127 * 0.5001).all())


@given(seed=st.integers(0, 1000))
def test_int4_is_off_by_one_step_of_its_group_at_most(seed: int) -> None:
    weight = weights(seed=seed)
    off = (Matrix.of(weight, Held.INT4).widened() - weight).abs().view(40, -1, GROUP)
    steps = weight.view(40, -1, GROUP).abs().amax(dim=-1, keepdim=True) / 8
    assert bool((off <= steps * 1.0001).all())


def test_the_farthest_weight_of_a_group_is_held_exactly_with_4_bits() -> None:
    weight = torch.full((2, GROUP), 0.25)
    weight[0, 5], weight[1, 7] = 2.0, -4.0
    wide = Matrix.of(weight, Held.INT4).widened()
    assert (float(wide[0, 5]), float(wide[1, 7])) == (2.0, -4.0)


@pytest.mark.parametrize("held", list(Held))
def test_zeros_stay_zeros(held: Held) -> None:
    assert not bool(Matrix.of(torch.zeros(3, GROUP), held).widened().any())


def test_float32_is_exact_and_float16_to_its_digits() -> None:
    weight = weights()
    assert torch.equal(Matrix.of(weight, Held.FLOAT32).widened(), weight)
    assert torch.equal(Matrix.of(weight, Held.FLOAT16).widened(), weight.half().float())
    assert torch.equal(Matrix.of(weight, Held.BFLOAT16).widened(), weight.bfloat16().float())


@pytest.mark.parametrize("held", list(Held))
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_products_are_those_of_the_widened_weights(held: Held, rows: int) -> None:
    matrix, rows_in = Matrix.of(weights(), held), weights(rows, seed=2)
    assert torch.allclose(matrix(rows_in), rows_in @ matrix.widened().T, atol=1e-5)


@pytest.mark.parametrize("rows_in", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("held", list(Held))
def test_products_have_the_type_of_their_rows_as_on_a_gpu(held: Held, rows_in: torch.dtype) -> None:
    matrix, rows = Matrix.of(weights(), held), weights(3, seed=2)
    found = matrix(rows.to(rows_in))
    assert found.dtype == rows_in
    assert torch.allclose(found.float(), matrix(rows), rtol=0.02, atol=0.3)


def test_a_large_matrix_is_widened_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, rows = Matrix.of(weights(), Held.INT8), weights(3, seed=2)
    whole = matrix(rows)
    monkeypatch.setattr("backstay_runtime.model.held._ROWS_AT_ONCE", 16)
    assert torch.allclose(matrix(rows), whole, atol=1e-6)


@pytest.mark.parametrize("held", list(Held))
def test_rows_are_looked_up_as_they_would_be_widened(held: Held) -> None:
    matrix, index = Matrix.of(weights(), held), torch.tensor([3, 0, 3])
    assert torch.equal(matrix.pick(index), matrix.widened()[index])


def test_memory_is_what_the_bits_say() -> None:
    taken = {held: Matrix.of(weights(64, 128), held).bytes for held in Held}
    for held in (Held.INT8, Held.INT4):
        assert taken[held] == held.bytes_of(64, 128)
    assert taken[Held.INT4] < 0.16 * taken[Held.FLOAT32] < 0.32 * taken[Held.FLOAT16] < taken[Held.FLOAT32]


def test_a_weight_beyond_float16_is_refused() -> None:
    weight = weights()
    weight[3, 3] = FP16_MAX + 100
    with pytest.raises(ValueError, match="larger than float16's 65504"):
        Matrix.of(weight, Held.FLOAT16)


def test_float16s_largest_number_is_held_as_such() -> None:
    weight = weights()
    weight[3, 3] = FP16_MAX
    assert float(Matrix.of(weight, Held.FLOAT16).widened()[3, 3]) == FP16_MAX


@pytest.mark.parametrize("held", [Held.FLOAT16, Held.INT8, Held.INT4])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_no_finite_number_is_refused_where_it_would_become_another_one(held: Held, bad: float) -> None:
    weight = weights()
    weight[3, 3] = bad
    with pytest.raises(ValueError, match="no finite number"):
        Matrix.of(weight, held)


def test_rows_that_are_no_whole_groups_are_refused_with_4_bits() -> None:
    with pytest.raises(ValueError, match="40 columns are no multiple of the 32"):
        Matrix.of(weights(3, 40), Held.INT4)


def test_a_weight_beyond_float16_is_held_as_bfloat16() -> None:
    weight = torch.full((2, 4), 2.0**100)
    assert torch.equal(Matrix.of(weight, Held.BFLOAT16).widened(), weight)


def test_norms_and_cache_are_of_16_bits_only_on_a_gpu() -> None:
    assert {computed_in(dtype, CPU) for dtype in Dtype} == {torch.float32}
    on_gpu = {dtype: computed_in(dtype, GPU) for dtype in Dtype}
    assert on_gpu == {
        Dtype.AUTO: torch.float16,
        Dtype.FLOAT32: torch.float32,
        Dtype.FLOAT16: torch.float16,
        Dtype.BFLOAT16: torch.bfloat16,
    }


def test_every_type_of_the_contract_is_known_here() -> None:
    assert set(get_args(Serving.model_fields["dtype"].annotation)) == set(Dtype)


def test_settings_mean_what_they_say() -> None:
    assert held_as(Dtype.AUTO, Quantization.NONE, CPU) is Held.FLOAT32
    assert held_as(Dtype.AUTO, Quantization.NONE, GPU) is Held.FLOAT16
    assert held_as(Dtype.FLOAT16, Quantization.INT8, CPU) is Held.INT8
    assert table_held_as(Dtype.AUTO, Quantization.INT4, CPU) is Held.INT8
    assert held_as(Dtype.BFLOAT16, Quantization.NONE, CPU) is Held.BFLOAT16
    assert table_held_as(Dtype.FLOAT16, Quantization.NONE, CPU) is Held.FLOAT16
