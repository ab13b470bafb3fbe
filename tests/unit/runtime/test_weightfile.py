"""Weights come from their file as they are in it, however they are read."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from backstay_runtime.model import memory, weightfile
from backstay_runtime.model.checkpoint import Checkpoint
from backstay_runtime.model.errors import ModelError
from backstay_runtime.model.held import GROUP, Held, Matrix
from backstay_runtime.model.weightfile import WeightFile
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

CPU = torch.device("cpu")
KINDS = (torch.float32, torch.float16, torch.bfloat16)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def weights(rows: int, columns: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)).to(dtype)


def opened(path: Path, stack: ExitStack) -> WeightFile:
    return WeightFile(path, stack, stack.enter_context(ThreadPoolExecutor(2)))


@settings(max_examples=40)
@given(rows=st.integers(1, 40), columns=st.integers(1, 30), piece=st.integers(1, 3000), kind=st.sampled_from(KINDS))
def test_pieces_of_any_size_make_the_tensor(
    tmp_path_factory: pytest.TempPathFactory, rows: int, columns: int, piece: int, kind: torch.dtype
) -> None:
    path = tmp_path_factory.mktemp("pieces") / "a.safetensors"
    tensors = {"first": weights(3, 5), "wanted": weights(rows, columns, kind, seed=1)}
    save_file(tensors, path)
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(weightfile, "PIECE_BYTES", piece)
        file = opened(path, stack)
        found = torch.full((rows, columns), -1.0, dtype=kind)
        for at, part in file.pieces("wanted"):
            assert len(part) == 1 or part.numel() * kind.itemsize <= piece
            found[at : at + len(part)] = part
    assert torch.equal(found, tensors["wanted"])


@pytest.mark.parametrize("most", [7, 64, 10_000])
def test_reads_of_any_size_make_the_tensor(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(weightfile, "MOST_BYTES", most)
    wanted = weights(9, 11, torch.bfloat16)
    save_file({"before": weights(2, 3), "wanted": wanted}, tmp_path / "a.safetensors")
    out = torch.zeros_like(wanted)
    for read in opened(tmp_path / "a.safetensors", stack).reads("wanted", out):
        read()
    assert torch.equal(out, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("held", list(Held))
def test_a_matrix_is_held_as_if_it_had_been_read_at_once(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch, held: Held, kind: torch.dtype
) -> None:
    monkeypatch.setattr(weightfile, "PIECE_BYTES", 1000)
    weight = weights(50, 2 * GROUP, kind)
    save_file({"w": weight}, tmp_path / "a.safetensors")
    tensors = Checkpoint(tmp_path, stack)
    matrix, whole = Matrix.empty(held, 50, 2 * GROUP, CPU), Matrix.of(weight, held)
    tensors.hold("w", matrix)
    tensors.finish()
    assert torch.equal(matrix.data, whole.data)
    assert torch.equal(matrix.scales, whole.scales)


def test_one_tensor_may_be_held_twice(tmp_path: Path, stack: ExitStack) -> None:
    """As embedding on the first device and as output head on the last."""
    save_file({"w": weights(4, 6)}, tmp_path / "a.safetensors")
    tensors = Checkpoint(tmp_path, stack)
    both = [Matrix.of(torch.zeros(4, 6), Held.FLOAT32) for _ in range(2)]
    for matrix in both:
        tensors.hold("w", matrix)
    tensors.finish()
    assert all(torch.equal(matrix.data, weights(4, 6)) for matrix in both)


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_that_float16_has_not_is_refused_with_the_tensors_name(
    tmp_path: Path, stack: ExitStack, kind: torch.dtype
) -> None:
    weight = weights(4, 6, kind)
    weight[2, 2] = torch.inf
    save_file({"the.weight": weight}, tmp_path / "a.safetensors")
    tensors = Checkpoint(tmp_path, stack)

    def load() -> None:
        tensors.hold("the.weight", Matrix.empty(Held.FLOAT16, 4, 6, CPU))
        tensors.finish()

    with pytest.raises(ModelError, match=r"the\.weight cannot be held as float16: .*; choose another dtype"):
        load()


@pytest.mark.parametrize("held", [Held.FLOAT32, Held.FLOAT16])
def test_a_file_that_becomes_shorter_is_refused_by_name(tmp_path: Path, stack: ExitStack, held: Held) -> None:
    """A mapped one would end the process."""
    save_file({"w": weights(40, 6)}, tmp_path / "a.safetensors")
    tensors = Checkpoint(tmp_path, stack)
    os.truncate(tmp_path / "a.safetensors", (tmp_path / "a.safetensors").stat().st_size - 1)

    def load() -> None:
        tensors.hold("w", Matrix.empty(held, 40, 6, CPU))
        tensors.finish()

    with pytest.raises(ModelError, match=r"a\.safetensors became shorter while it was read"):
        load()


@pytest.mark.parametrize("rows", [3, 1024])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_for_weights_has_its_shape_and_type_and_can_be_written(rows: int, kind: torch.dtype) -> None:
    tensor = memory.empty((2, rows, 1024), kind, CPU)
    assert (tensor.shape, tensor.dtype) == ((2, rows, 1024), kind)
    tensor.fill_(1.5)
    assert bool((tensor == 1.5).all())


def test_memory_that_the_machine_has_not_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="bytes for weights"):
        memory.empty((1 << 60,), torch.uint8, CPU)


def test_a_kernel_without_large_pages_gives_ordinary_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MADV_HUGEPAGE", 12345)
    assert len(memory.empty((1 << 22,), torch.uint8, CPU)) == 1 << 22
    monkeypatch.setattr(memory, "_MADV_HUGEPAGE", None)
    assert len(memory.empty((1 << 22,), torch.uint8, CPU)) == 1 << 22
