"""What numba lacks: typed decorators, floats of 16 bits, and atomic counters."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from llvmlite import binding, ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from backstay_runtime.kernels import kept
from backstay_runtime.kernels.target import best

Function = TypeVar("Function", bound=Callable[..., Any])

_LINE_FLOATS = 16

# Sums may be taken in any order, so that they are vectorised; NaN and infinity keep their meaning.
_REORDERED = {"reassoc", "nsz", "contract", "arcp"}


def _choose_target() -> None:
    """Before anything is compiled. What NUMBA_CPU_NAME says comes first."""
    if config.CPU_NAME is not None:  # type: ignore[attr-defined]
        return
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know it
        return
    target = best([name for name, there in features.items() if there])
    if target is not None:
        config.CPU_NAME, config.CPU_FEATURES = target.name, target.features  # type: ignore[attr-defined]


def _cache_folder() -> bool:
    """Tells numba where machine code is kept; False where nothing can be written: then each process compiles for
    itself."""
    root, shipped = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get(kept.SHIPPED)
    folder = kept.folder_in(Path(root) if root else Path(__file__).parent / "__pycache__")
    config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    made_for: str | None = config.CPU_NAME  # type: ignore[attr-defined]
    return kept.prepare(folder, kept.folder_in(Path(shipped) / made_for) if shipped and made_for else None)


_choose_target()
_CACHED = _cache_folder()


def compiled(function: Function) -> Function:
    """The function as machine code that lets go of the interpreter's lock. Compiled at its first call."""
    made: Any = njit(cache=_CACHED, fastmath=_REORDERED, nogil=True, boundscheck=False, error_model="numpy")(function)
    compiled_function: Function = made
    return compiled_function


def builtin(function: Callable[..., Any]) -> Any:
    """What is called in compiled code, and is made of instructions."""
    return intrinsic(function)


@builtin
def float_of_half(_typing: Any, _bits: Any) -> Any:
    """The float32 that has the value of a float16's 16 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return builder.fpext(builder.bitcast(given[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


@builtin
def float_of_brain(_typing: Any, _bits: Any) -> Any:
    """The float32 that has the value of a bfloat16's 16 bits, which are its upper half."""

    def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        word = ir.IntType(32)
        return builder.bitcast(builder.shl(builder.zext(given[0], word), ir.Constant(word, 16)), ir.FloatType())

    return types.float32(types.int16), generate


@builtin
def low_bits(_typing: Any, _byte: Any) -> Any:
    """A byte's lower four bits as float32. Numba's own whole numbers have 64 bits, which would not be vectorised."""

    def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return builder.uitofp(builder.and_(given[0], ir.Constant(ir.IntType(8), 15)), ir.FloatType())

    return types.float32(types.uint8), generate


@builtin
def high_bits(_typing: Any, _byte: Any) -> Any:
    """A byte's upper four bits as float32."""

    def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return builder.uitofp(builder.lshr(given[0], ir.Constant(ir.IntType(8), 4)), ir.FloatType())

    return types.float32(types.uint8), generate


@builtin
def add_atomic(_typing: Any, counter: Any, _amount: Any) -> Any:
    """Adds to counter[0] of an int64 array in one step that all threads see; returns what was there before."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, given[0])
        return builder.atomic_rmw("add", array.data, given[1], "seq_cst")

    return types.int64(counter, types.int64), generate


@builtin
def fetch(_typing: Any, row: Any) -> Any:
    """Asks for a row's memory, so that it is near when it is read: the processor itself foresees only what lies in a
    line, and a sequence's keys lie apart. `row`: float32 numbers side by side."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, given[0])
        word, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        flags = [ir.Constant(word, flag) for flag in (0, 3, 1)]  # to read, and keep in all caches; data
        count = builder.extract_value(array.shape, 0)
        with cgutils.for_range_slice(builder, count.type(0), count, count.type(_LINE_FLOATS)) as (at, _):
            builder.call(function, [builder.bitcast(builder.gep(array.data, [at]), byte), *flags])
        return context.get_dummy_value()

    return types.void(row), generate


def widen(value: Any) -> Any:
    """A stored weight as float32; only for compiled code. uint16 holds a float16's bits, int16 a bfloat16's."""
    raise NotImplementedError


@overload(widen)
def _widen(value: Any) -> Any:
    def half(value: Any) -> Any:
        return float_of_half(value)

    def brain(value: Any) -> Any:
        return float_of_brain(value)

    def number(value: Any) -> Any:
        return types.float32(value)

    return {types.uint16: half, types.int16: brain}.get(value, number)


yield_processor: Any = types.ExternalFunction("sched_yield", types.int32())
"""Lets another thread run on this processor."""
