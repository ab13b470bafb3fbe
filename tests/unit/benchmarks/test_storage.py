"""What the benchmark of pull and push makes of its runs."""

import sys
from pathlib import Path

import pytest
from backstay_cluster import programs

from benchmarks.storage import __main__ as bench
from benchmarks.storage import rclone
from benchmarks.storage.place import Storage

STORAGE = Storage("127.0.0.1:1", "an-access-key", "a-secret-key", Path("/nowhere"))


def measured(way: str, rate: float) -> bench.Measured:
    return bench.Measured(way, rate, [round(rate)], 1.0)


def rates(**of: float) -> dict[str, bench.Measured]:
    return {way: measured(way, rate) for way, rate in of.items()}


def test_a_push_is_bound_by_a_hash_before_the_plain_work_and_one_beside_it() -> None:
    found = rates(fput=1000.0, sha256=1000.0)
    assert bench.push_bound(found, cores=2, files=1) == pytest.approx(400.0)
    assert bench.push_bound(found, cores=2, files=8) == pytest.approx(500.0)


def test_a_way_that_is_not_there_is_named_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    def way(folder: Path) -> None: ...

    assert bench.present({"pull": way, "rclone": None, "boto3": None}) == {"pull": way}
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("rclone is left out: ")
    assert "--only rclone" in said[0]
    assert said[1].startswith("boto3 is left out: ")


def test_every_way_is_measured_in_each_round_in_a_folder_of_its_own(tmp_path: Path) -> None:
    seen: list[tuple[str, Path]] = []
    found = bench.measure(
        {"a": lambda folder: seen.append(("a", folder)), "b": lambda folder: seen.append(("b", folder))},
        tmp_path, rounds=2, size=1000,
    )  # fmt: skip
    assert [name for name, _ in seen] == ["a", "b", "b", "a"]
    assert len({folder for _, folder in seen}) == 4
    assert [len(one.runs) for one in found.values()] == [2, 2]


def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program in rclone's place."""
    program = tmp_path / "rclone"
    program.write_text(f"#!{sys.executable}\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(programs, "built", lambda name: program)


def test_rclone_has_its_keys_from_the_environment_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import os, sys, pathlib\npathlib.Path(sys.argv[-1], 'said').write_text(f'{sys.argv} {dict(os.environ)}')"
    played(tmp_path, monkeypatch, script)
    way = rclone.pulled(STORAGE)
    assert way is not None
    way(tmp_path)
    arguments, environment = (tmp_path / "said").read_text().split("] {")
    assert "bench:models/bench/1" in arguments
    assert STORAGE.access not in arguments
    assert STORAGE.secret not in arguments
    assert "'RCLONE_CONFIG_BENCH_SECRET_ACCESS_KEY': 'a-secret-key'" in environment


def test_a_copy_that_fails_ends_the_benchmark_with_what_rclone_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(tmp_path, monkeypatch, "raise SystemExit('no such bucket')")
    way = rclone.pulled(STORAGE)
    assert way is not None
    with pytest.raises(SystemExit, match="exit 1\nno such bucket"):
        way(tmp_path)


def test_a_child_processs_time_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played(tmp_path, monkeypatch, "sum(range(3_000_000))")
    way = rclone.pulled(STORAGE)
    assert way is not None
    assert bench.measure({"rclone": way}, tmp_path, rounds=1, size=1000)["rclone"].cpu_seconds > 0.02


def test_rclone_is_no_way_where_it_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "built", lambda name: None)
    assert rclone.pulled(STORAGE) is None
