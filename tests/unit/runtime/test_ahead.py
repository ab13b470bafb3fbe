"""What is compiled ahead is what the runtime calls, and a process takes it from the folder that it comes in."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from backstay_runtime import speed
from backstay_runtime.kernels import ahead, kept
from backstay_runtime.kernels import step as kernels
from backstay_runtime.kernels.target import TARGETS
from backstay_runtime.model.held import Held
from numba import typeof

from . import tiny
from .test_decoder import FAMILIES, LENGTHS, WAYS, config_of, decoded, runner_of

ROTATE = """
import numpy as np
from backstay_runtime.kernels.heads import rotate
rotate(np.ones(8, np.float32), np.ones(8, np.float32), np.zeros(8, np.float32))
print(sum(rotate.stats.cache_hits.values()), sum(rotate.stats.cache_misses.values()))
"""
COMPILED, LOADED = ["0", "1"], ["1", "0"]
TARGET = (
    "from backstay_runtime.kernels import jit; from numba import config; print(config.CPU_NAME, config.CPU_FEATURES)"
)


def run(code: str, **environment: str | Path) -> list[str]:
    """The words that a fresh process prints."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", kept.SHIPPED))}
    every = known | {name: str(value) for name, value in environment.items()}
    done = subprocess.run([sys.executable, "-c", code], env=every, capture_output=True, text=True, check=True)
    return done.stdout.split()


def types_of(*arguments: Any) -> tuple[Any, ...]:
    return tuple(typeof(one) for one in arguments)  # type: ignore[no-untyped-call]


def ahead_of(function: Any) -> set[Any]:
    return {types for called, types in ahead.calls() if called is function}


# --- the calls ---------------------------------------------------------------------------------------------------


def test_a_decoder_calls_what_is_compiled_ahead_and_nothing_else(tmp_path: Path) -> None:
    """With weights held in every way, with biases (Qwen2) and with norms of heads (Qwen3)."""
    for number, (family, way) in enumerate(
        [*((FAMILIES[0], way) for way in WAYS), *((one, WAYS[0]) for one in FAMILIES)]
    ):
        sizes = config_of(family)
        runner = runner_of(tiny.write(tmp_path / str(number), tiny.tensors(sizes), sizes), 2, *way)
        decoded(runner, LENGTHS)
        runner.close()
    for function in (kernels.step, kernels.head):
        assert set(function.signatures) == ahead_of(function)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["plain_product", "four_bit_product"])
def test_so_does_the_measurement_of_a_quantization(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    function, seen = getattr(speed, name), set()

    def product(*arguments: Any) -> None:
        seen.add(types_of(*arguments))

    monkeypatch.setattr(speed, "_ROWS", 64)
    monkeypatch.setattr(speed, name, product)
    for held in (Held.INT8, Held.INT4):
        speed.measured(held)
    assert seen == ahead_of(function)


# --- the folder --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "counts"), [("generic", LOADED), ("x86-64", COMPILED)])
def test_a_process_compiles_nothing_that_was_shipped_for_its_target(
    tmp_path: Path, target: str, counts: list[str]
) -> None:
    shipped = tmp_path / "shipped"
    assert run(ROTATE, NUMBA_CACHE_DIR=shipped / "generic", NUMBA_CPU_NAME="generic") == COMPILED
    found = run(ROTATE, NUMBA_CACHE_DIR=tmp_path / "own", NUMBA_CPU_NAME=target, BACKSTAY_KERNELS=shipped)
    assert found == counts


def test_each_target_is_compiled_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Process:
        def __init__(self, command: list[str], env: dict[str, str]) -> None:
            started.append({name: value for name, value in env.items() if name.startswith(("NUMBA_", "BACKSTAY_KER"))})

        def wait(self) -> int:
            return -4 if len(started) > 1 else 0

    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv(kept.SHIPPED, "/opt/kernels")
    assert ahead.main([str(tmp_path / "new")]) == 4, "a process that was killed is a failure"
    assert started == [
        {
            "NUMBA_CPU_NAME": one.name,
            "NUMBA_CPU_FEATURES": one.features,
            "NUMBA_CACHE_DIR": f"{tmp_path}/new/{one.name}",
        }
        for one in TARGETS
    ]


def test_for_a_processor_of_another_family_nothing_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert ahead.main([str(tmp_path / "new")]) == 0
    assert list((tmp_path / "new").iterdir()) == []


# --- the target --------------------------------------------------------------------------------------------------


def test_a_target_that_the_environment_names_comes_first() -> None:
    assert run(TARGET, NUMBA_CPU_NAME="generic") == ["generic"]
    assert run(TARGET, NUMBA_CPU_NAME="x86-64-v3", NUMBA_CPU_FEATURES="+avx512f") == ["x86-64-v3", "+avx512f"]


def test_code_is_made_for_a_level_and_not_for_this_very_processor() -> None:
    found = run(TARGET)
    assert found == ["None", "None"] or " ".join(found) in {f"{one.name} {one.features}".strip() for one in TARGETS}
