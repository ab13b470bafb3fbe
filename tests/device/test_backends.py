"""Every way of attending that the machine offers, beside the reference."""

import importlib.util

import pytest
import torch
from backstay_runtime import machine
from backstay_runtime.backends import choice
from backstay_runtime.backends.backend import AttentionBackend
from backstay_runtime.backends.flash_infer import FlashInfer
from backstay_runtime.backends.gathered import Gathered
from backstay_runtime.kv.cache import KVCache
from hypothesis import given, settings

from tests.unit.runtime.attending import BLOCK, Step, off, steps

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no accelerator"),
]

FLASH_INFER = pytest.mark.skipif(importlib.util.find_spec("flashinfer") is None, reason="FlashInfer is not installed")

MOST = {torch.float32: 1e-4, torch.float16: 8e-3, torch.bfloat16: 6e-2}
"""Of numbers below 4. float16 has 10 bits behind the point, and bfloat16 7; a wrong page is off by whole numbers."""


def gathered(cache: KVCache, _heads: int) -> AttentionBackend:
    return Gathered(cache)


def flash_infer(cache: KVCache, heads: int) -> AttentionBackend:
    return FlashInfer(cache, heads, choice.library())


@pytest.mark.parametrize("dtype", list(MOST))
@settings(max_examples=40)
@given(step=steps(head_dims=(8, 64, 128)))
def test_torchs_own_gives_the_reference(dtype: torch.dtype, step: Step) -> None:
    assert off(step, gathered, dtype, machine.device()) < MOST[dtype]


@FLASH_INFER
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@settings(max_examples=40)
@given(step=steps(head_dims=(64, 128)))
def test_flash_infer_gives_the_reference(dtype: torch.dtype, step: Step) -> None:
    assert off(step, flash_infer, dtype, machine.device()) < MOST[dtype]


@FLASH_INFER
def test_flash_infer_is_chosen_where_it_is_installed() -> None:
    cache = KVCache(4, BLOCK, layers=1, kv_heads=2, head_dim=64, device=machine.device(), dtype=torch.float16)
    assert isinstance(choice.choose(cache, 8), FlashInfer)
