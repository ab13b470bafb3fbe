"""Which way of attending serves a cache."""

import importlib
import logging
import os
from collections.abc import Callable
from typing import Any

import torch

from backstay_runtime.backends.backend import AttentionBackend
from backstay_runtime.backends.flash_infer import FlashInfer, UnusableError
from backstay_runtime.backends.gathered import Gathered
from backstay_runtime.batch import Slice, lay_out
from backstay_runtime.kv.blocks import PADDING_BLOCK
from backstay_runtime.kv.cache import KVCache

_log = logging.getLogger(__name__)


def library() -> Any:
    """The module `flashinfer`, without its compiler. Raises whatever its import does, where it cannot be had.

    Left to itself, it compiles a kernel where it is first called, for minutes, in a pod that has no compiler. So only
    those are used that are installed (`flashinfer-jit-cache`). An empty FLASHINFER_DISABLE_JIT allows compiling.
    """
    os.environ.setdefault("FLASHINFER_DISABLE_JIT", "1")
    return importlib.import_module("flashinfer")


def choose(cache: KVCache, heads: int, load: Callable[[], Any] = library) -> AttentionBackend:
    """FlashInfer where the cache is on a GPU and a trial of it succeeds, else torch's own. `heads`: of the queries."""
    if cache.whole.device.type != "cuda":
        return Gathered(cache)
    try:
        return tried(FlashInfer(cache, heads, load()), cache, heads)
    except Exception as why:
        # Whatever is wrong with it, from a missing package to a kernel that was built for other GPUs.
        _log.info("attention is torch's own; FlashInfer is not used: %s", why)
        return Gathered(cache)


def tried(backend: FlashInfer, cache: KVCache, heads: int) -> FlashInfer:
    """The backend, after one row of zeros: its first call is where a kernel is found missing. Raises what it raises."""
    layout = lay_out([Slice(0, [0], 0, [PADDING_BLOCK])], cache.whole.shape[2])
    kv_heads, head_dim = cache.whole.shape[4:]
    queries = torch.zeros(1, heads, head_dim, device=cache.whole.device, dtype=cache.whole.dtype)
    zeros = queries.new_zeros(1, 2, kv_heads, head_dim)  # which is what the padding block holds, and has to
    if bool(backend.attention(layout)(0, queries, zeros).any()):
        raise UnusableError("a row of zeros came out as something else")
    return backend
