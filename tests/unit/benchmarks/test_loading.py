"""The benchmark of loading, on a tiny model."""

from pathlib import Path

import pytest
import torch
from backstay_runtime.model import memory
from backstay_runtime.model.linear import Dtype

from benchmarks.engine import load
from benchmarks.engine.load import Case, Line
from tests.unit.runtime import tiny


@pytest.mark.parametrize("case", load.CASES)
def test_every_way_ends_with_all_weights(tmp_path: Path, case: Case) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "stored").mkdir()
    folder = load.stored_as(case.stored, tiny.write(tmp_path / "model"), tmp_path / "stored")
    numbers = sum(one.numel() for one in tiny.tensors().values())
    each = getattr(torch, case.held).itemsize
    assert load.bytes_of("read", load.way_of("read", folder, case.held)()) == 0
    assert load.bytes_of("copied", load.way_of("copied", folder, case.held)()) == each * numbers
    assert load.bytes_of("backstay", load.way_of("backstay", folder, case.held)()) > each * numbers * 0.9


def test_memory_that_is_taken_while_watched_is_seen() -> None:
    size = 64 * load.MIB
    with load.watching() as seen:
        taken = memory.empty([size], torch.uint8, load.CPU).zero_()
    before, most = seen[0][0], max(anonymous for anonymous, _ in seen)
    assert len(taken) * 0.9 < most - before < len(taken) * 2


def test_the_table_says_how_many_times_as_long_the_runtime_takes() -> None:
    case = Case(torch.bfloat16, Dtype.FLOAT16)
    lines = [Line(case.name, way, seconds, 1.0, [], 0.0, 0.0) for way, seconds in (("read", 2.0), ("backstay", 3.0))]
    shown = load.table(lines).splitlines()
    assert shown[1].startswith("bfloat16 as float16")
    assert ["1.50 x" in line for line in shown] == [False, True, False]
