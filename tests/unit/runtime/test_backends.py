"""Ways of attending beside the reference, and which is chosen."""

import logging
import os
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from backstay_runtime.attention import PagedAttention
from backstay_runtime.backends import choice
from backstay_runtime.backends.flash_infer import FlashInfer, UnusableError
from backstay_runtime.backends.gathered import Gathered
from backstay_runtime.batch import Slice, lay_out
from backstay_runtime.kv.cache import KVCache
from hypothesis import given

from . import flash_infer_stand_in as stand_in
from .attending import BLOCK, Step, off, steps

CPU = torch.device("cpu")


def cache(dtype: torch.dtype = torch.float16, head_dim: int = 64) -> KVCache:
    return KVCache(8, BLOCK, layers=1, kv_heads=2, head_dim=head_dim, device=CPU, dtype=dtype)


@given(steps())
def test_torch_gives_the_reference_whatever_a_step_is_made_of(step: Step) -> None:
    assert off(step, lambda held, _heads: Gathered(held), torch.float32, CPU) < 1e-5


@given(steps(head_dims=(64,)))
def test_what_flash_infer_is_told_gives_the_reference_where_it_does_as_documented(step: Step) -> None:
    """Half precision: a number between 1 and 2 has 10 bits behind the point."""
    assert off(step, lambda held, heads: FlashInfer(held, heads, stand_in), torch.float16, CPU) < 4e-3


def test_pages_are_read_where_they_are() -> None:
    held = cache()
    planned = FlashInfer(held, 4, stand_in).attention(lay_out([Slice(0, [1], 0, [3])], BLOCK))
    seen: list[torch.Tensor] = []
    run = planned._wrapper.run

    def watched(queries: torch.Tensor, pages: tuple[torch.Tensor, torch.Tensor]) -> Any:
        seen.extend(pages)
        return run(queries, pages)

    planned._wrapper.run = watched
    ones = torch.ones(1, 2, 2, 64, dtype=torch.float16)
    planned(0, torch.ones(1, 4, 64, dtype=torch.float16), ones)
    assert [one.untyped_storage().data_ptr() for one in seen] == [held.whole.untyped_storage().data_ptr()] * 2


@pytest.mark.parametrize("held", [cache(torch.float32), cache(head_dim=80)])
def test_numbers_that_its_kernels_do_not_take_are_refused(held: KVCache) -> None:
    with pytest.raises(UnusableError, match="none of"):
        FlashInfer(held, 4, stand_in)


def test_a_cpu_has_torchs_own_and_never_looks_for_another() -> None:
    def load() -> Any:
        raise AssertionError("looked for")

    backend = choice.choose(cache(), 4, load)
    assert isinstance(backend.attention(lay_out([Slice(0, [1], 0, [3])], BLOCK)), PagedAttention)


def on_a_gpu(held: KVCache) -> Any:
    """The cache, as far as choosing looks at it."""
    whole = SimpleNamespace(device=SimpleNamespace(type="cuda"), shape=held.whole.shape, dtype=held.whole.dtype)
    return SimpleNamespace(whole=whole)


def missing() -> Any:
    raise ModuleNotFoundError("No module named 'flashinfer'")


def for_other_gpus() -> Any:
    def wrapper(*_given: Any, **_named: Any) -> Any:
        raise RuntimeError("no kernel image is available")

    return SimpleNamespace(BatchPrefillWithPagedKVCacheWrapper=wrapper)


@pytest.mark.parametrize(
    ("load", "said"), [(missing, "No module named 'flashinfer'"), (for_other_gpus, "no kernel image")]
)
def test_a_gpu_has_torchs_own_where_flash_infer_cannot_be_had(
    load: Any, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("torch.zeros", lambda *_shape, **_named: torch.empty(0))
    with caplog.at_level(logging.INFO):
        assert isinstance(choice.choose(on_a_gpu(cache()), 4, load), Gathered)
    assert said in caplog.text


def test_a_trial_leaves_the_padding_block_as_it_was() -> None:
    held = cache()
    backend = FlashInfer(held, 4, stand_in)
    assert choice.tried(backend, held, 4) is backend
    assert not held.whole.any()


def test_a_trial_refuses_what_makes_something_of_nothing() -> None:
    held = cache()
    backend = FlashInfer(held, 4, stand_in)
    backend._wrapper.run = lambda queries, _pages: torch.full_like(queries, float("nan"))
    with pytest.raises(UnusableError, match="came out"):
        choice.tried(backend, held, 4)


def test_the_library_is_loaded_without_its_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLASHINFER_DISABLE_JIT", raising=False)
    asked: list[str] = []

    def found(name: str) -> ModuleType:
        asked.append(f"{name} {os.environ['FLASHINFER_DISABLE_JIT']}")
        return ModuleType(name)

    monkeypatch.setattr("importlib.import_module", found)
    choice.library()
    monkeypatch.setenv("FLASHINFER_DISABLE_JIT", "")
    choice.library()
    assert asked == ["flashinfer 1", "flashinfer "]
