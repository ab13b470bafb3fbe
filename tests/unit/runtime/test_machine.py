import os
from pathlib import Path

import pytest
from backstay_runtime import machine


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("quota", "wanted"), [("400000 100000", 4), ("150000 100000", 1), ("20000 100000", 1), ("max 100000", 8)]
)
def test_no_more_threads_than_the_quota_pays_for(
    cgroup: Path, monkeypatch: pytest.MonkeyPatch, quota: str, wanted: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    (cgroup / "cpu.max").write_text(quota)
    assert machine.processors() == wanted


def test_the_older_control_groups_are_understood_too(cgroup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    (cgroup / "cpu").mkdir()
    (cgroup / "cpu" / "cpu.cfs_quota_us").write_text("200000")
    (cgroup / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert machine.processors() == 2


def test_memory_is_what_the_limit_leaves_with_what_the_kernel_can_take_back(cgroup: Path) -> None:
    (cgroup / "memory.max").write_text("100000000")
    (cgroup / "memory.current").write_text("90000000")
    (cgroup / "memory.stat").write_text("anon 5\ninactive_file 20000000\n")
    assert machine.memory_left() == 30_000_000


def test_without_a_limit_memory_is_what_the_machine_has(cgroup: Path) -> None:
    assert 0 < machine.memory_left() < 2**50
