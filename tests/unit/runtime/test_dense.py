import threading

import pytest
import torch
from backstay_runtime.buckets import bucket
from backstay_runtime.model import dense, scratch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(rows=st.integers(1, 70), out=st.integers(1, 40), width=st.integers(1, 40), biased=st.booleans())
def test_a_product_is_the_one_in_double_precision(rows: int, out: int, width: int, biased: bool) -> None:
    given, weight = numbers(rows, width, seed=1), numbers(out, width, seed=2)
    bias = numbers(out, seed=3) if biased else None
    wanted = functional.linear(given.double(), weight.double(), None if bias is None else bias.double())
    found = dense.linear(given, weight, bias)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), wanted, atol=1e-4)


def test_a_product_of_a_batch_of_texts_keeps_its_shape() -> None:
    given, weight = numbers(3, 5, 16), numbers(8, 16)
    assert torch.allclose(dense.linear(given, weight), given @ weight.T, atol=1e-5)


def test_a_product_of_rows_that_do_not_lie_side_by_side_is_that_of_the_same_rows_that_do() -> None:
    given, weight = numbers(4, 6, 16), numbers(8, 16)
    assert torch.allclose(dense.linear(given[:, 2], weight), given[:, 2].contiguous() @ weight.T, atol=1e-5)


@pytest.mark.parametrize("held", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types_are_left_to_torch(held: torch.dtype) -> None:
    given, weight = numbers(3, 16).to(held), numbers(8, 16).to(held)
    assert torch.equal(dense.linear(given, weight), functional.linear(given, weight))


def test_no_rows_give_no_rows() -> None:
    assert dense.linear(torch.zeros(0, 16), numbers(8, 16)).shape == (0, 8)


@pytest.mark.skipif(dense._ONEDNN is None, reason="torch was built without it")
def test_batches_of_any_size_are_padded_to_few(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, sizes = dense._ONEDNN, set()

    def counted(rows: torch.Tensor, *others: object) -> torch.Tensor:
        sizes.add(len(rows))
        return whole(rows, *others)  # type: ignore[misc]

    monkeypatch.setattr(dense, "_ONEDNN", counted)
    weight = numbers(8, 16)
    for texts in range(1, 12):
        given = numbers(texts, 7, 16)
        assert torch.allclose(dense.linear(given, weight), given @ weight.T, atol=1e-5)
    assert sizes == {bucket(7 * texts) for texts in range(1, 12)}


def test_without_onednn_the_product_is_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "_ONEDNN", None)
    given, weight = numbers(3, 16), numbers(8, 16)
    assert torch.equal(dense.linear(given, weight), functional.linear(given, weight))


def test_a_number_that_is_not_finite_stays_in_its_row() -> None:
    given, weight = numbers(40, 16), numbers(8, 16)
    given[7, 3] = float("nan")
    finite = dense.linear(given, weight).isfinite().all(dim=-1)
    assert finite.tolist() == [row != 7 for row in range(40)]


def test_memory_for_widening_is_taken_once() -> None:
    first = scratch.like(torch.empty(4, 8))
    assert scratch.like(torch.empty(2, 8)).data_ptr() == first.data_ptr()
    assert scratch.like(torch.empty(2, 8)).shape == (2, 8)


def test_memory_that_an_inference_took_first_can_be_used_outside_one() -> None:
    def work() -> None:
        with torch.inference_mode():
            scratch.like(torch.empty(4, 8)).zero_()
        found.append(scratch.like(torch.empty(4, 8)).fill_(2.0).sum().item())

    found: list[float] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [64.0]


def test_two_threads_do_not_widen_into_the_same_memory() -> None:
    def work() -> None:
        theirs.append(scratch.like(torch.empty(4, 8)))

    theirs: list[torch.Tensor] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert theirs[0].data_ptr() != scratch.like(torch.empty(4, 8)).data_ptr()
