"""`python -m backstay_runtime.kernels.ahead FOLDER`: compiles what the runtime calls, so that a pod need not.

Nothing of it is run: a machine compiles for processors that have more than its own. Each target takes a process, as
numba has one target for each.
"""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numba import typeof

from backstay_runtime.kernels import kept
from backstay_runtime.kernels.product import four_bit_product, plain_product
from backstay_runtime.kernels.step import Batch, Projection, Scratch, Weights, head, step
from backstay_runtime.kernels.target import TARGETS, Target

FOUR_BITS = np.uint8
HEAD_DATA = (np.float32, np.uint16, np.int16, np.int8)
"""Types of the arrays that hold an output head: as float32, float16, bfloat16, int8."""
STEP_DATA = (*HEAD_DATA, FOUR_BITS)
"""The same for the matrices of the layers, which may have 4 bits."""


def calls() -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Each compiled function that the runtime calls, with the types of its arguments."""
    for data in STEP_DATA:
        yield step, _types(0, 1, _weights(data), _batch(), _scratch(), _array(6))
    for data in HEAD_DATA:
        yield head, _types(0, 1, _array(2), _array(2, data), _array(2), _array(2))
    # What a quantization's speed is measured with.
    for product, data in ((plain_product, np.float32), (plain_product, np.int8), (four_bit_product, FOUR_BITS)):
        yield product, _types(_array(2), _array(2, data), _array(2), 0, 1, _array(2))


def compile_all() -> None:
    """Compiles them for this process's target, and keeps them in its folder."""
    for function, types in calls():
        function.compile(types)


def main(argv: Sequence[str]) -> int:
    """Returns the exit code; output and errors are those of the compiling processes."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__)
    parser.add_argument("folder", type=Path, help=f"for the machine code; {kept.SHIPPED} names it when serving")
    folder: Path = parser.parse_args(argv).folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # On other processors pods compile for themselves, as their levels have no names that all of them share.
    wanted = TARGETS if platform.machine() == "x86_64" else ()
    compiling = [_start(target, folder / target.name) for target in wanted]
    return max((abs(one.wait()) for one in compiling), default=0)


def _start(target: Target, folder: Path) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != kept.SHIPPED}
    environment |= {
        "NUMBA_CPU_NAME": target.name,
        "NUMBA_CPU_FEATURES": target.features,
        "NUMBA_CACHE_DIR": str(folder),
    }
    command = f"from {__spec__.name} import compile_all; compile_all()"
    return subprocess.Popen([sys.executable, "-c", command], env=environment)


def _types(*arguments: Any) -> tuple[Any, ...]:
    return tuple(typeof(one) for one in arguments)  # type: ignore[no-untyped-call]


def _array(dimensions: int, data: Any = np.float32) -> Any:
    return np.empty((1,) * dimensions, dtype=data)


def _projection(data: Any) -> Projection:
    return Projection(data=_array(3, data), scales=_array(3), bias=_array(2))


def _weights(data: Any) -> Weights:
    return Weights(
        attention_norm=_array(2),
        qkv=_projection(data),
        head_norms=_array(3),
        output=_projection(data),
        feed_norm=_array(2),
        gate_up=_projection(data),
        down=_projection(data),
        epsilon=1.0,
        heads=1,
        kv_heads=1,
    )


def _batch() -> Batch:
    return Batch(
        positions=_array(1, np.int64),
        slots=_array(1, np.int64),
        blocks=_array(2, np.int64),
        cosines=_array(2),
        sines=_array(2),
    )


def _scratch() -> Scratch:
    return Scratch(
        normed=_array(3),
        scores=_array(3),
        turned=_array(3),
        state=_array(2),
        qkv=_array(2),
        mixed=_array(2),
        gate_up=_array(2),
        fed=_array(2),
        added=_array(2),
        arrived=_array(1, np.int64),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
