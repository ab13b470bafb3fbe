"""The models folder as a cache: who is kept, who goes, and when."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from backstay_contract.termination import GaveUp
from backstay_runtime.hold import hold, hold_file
from backstay_runtime.pull import cache as caching
from backstay_runtime.pull.cache import GRACE_SECONDS, Cache, Choice, Entry, choose
from backstay_runtime.pull.checks import RESERVE_BYTES
from backstay_runtime.pull.errors import PullError
from backstay_runtime.pull.lock import lock_file, open_lock
from hypothesis import given
from hypothesis import strategies as st

from .fakes import Lines

NOW = 1_000_000.0
OWN, OLD, NEW = "0" * 64, "a" * 64, "b" * 64
MIB = 1024 * 1024
SIZE = 4 * MIB

entries = st.lists(
    st.builds(
        Entry,
        hex_digest=st.uuids().map(str),
        size=st.integers(0, 100),
        unwritten=st.integers(0, 5),
        used_at=st.floats(0, NOW),
        idle_since=st.none() | st.floats(0, NOW),
    ),
    max_size=8,
)


@given(entries, st.integers(-50, 400))
def test_only_idle_models_go_the_least_recently_used_first_and_no_more_than_needed(
    cached: list[Entry], lacking: int
) -> None:
    choice = choose(cached, lacking, NOW)
    idle = sorted((one for one in cached if one.idle_since is not None), key=lambda one: one.used_at)

    if sum(one.size for one in idle) < lacking:
        assert choice is None
        return
    assert choice is not None
    gone = [one for one in cached if one.hex_digest in choice.evict]
    assert sorted(gone, key=lambda one: one.used_at) == idle[: len(gone)]
    assert all(one.idle_since is not None and one.idle_since + GRACE_SECONDS <= NOW for one in gone)
    if choice.wait_until is None:
        assert sum(one.size for one in gone) >= lacking
        assert sum(one.size for one in sorted(gone, key=lambda one: one.used_at)[:-1]) < max(lacking, 1)


@given(entries, st.integers(1, 400))
def test_a_wait_ends_with_models_that_may_go(cached: list[Entry], lacking: int) -> None:
    choice = choose(cached, lacking, NOW)

    if choice is not None and choice.wait_until is not None:
        assert choice.evict == ()
        assert NOW < choice.wait_until <= NOW + GRACE_SECONDS
        later = choose(cached, lacking, choice.wait_until)
        assert later is not None
        assert later.evict


def test_nothing_goes_while_there_is_room() -> None:
    assert choose([Entry(OLD, 9, 0, 0.0, 0.0)], 0, NOW) == Choice()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Two whole models, the first used before the second, both long idle."""
    for age, name in ((2e4, OLD), (1e4, NEW)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(os.urandom(SIZE))
        hold_file(tmp_path, name).touch()
        os.utime(hold_file(tmp_path, name), (NOW - age, NOW - age))
        mark = tmp_path / f"{caching.IDLE}{name}"
        mark.touch()
        os.utime(mark, (NOW - 1e3, NOW - 1e3))
    return tmp_path


class Clock:
    """Time that passes by sleeping."""

    def __init__(self) -> None:
        self.now, self.slept = NOW, 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds


def make_room(
    models: Path, need: int, budget: int | None, clock: Clock | None = None, log: Lines | None = None
) -> None:
    clock = clock or Clock()
    with Cache(models, OWN, budget, log or Lines(), clock, clock.sleep).room(need, need):
        pass


def there(models: Path) -> set[str]:
    return {path.name for path in models.iterdir() if path.is_dir()}


def test_the_least_recently_used_model_goes_when_the_cache_is_full(models: Path) -> None:
    log = Lines()
    make_room(models, SIZE, 2 * SIZE + RESERVE_BYTES, log=log)
    assert there(models) == {NEW}
    assert log.said[-1][2] == {"digest": f"sha256:{OLD}"}


def test_no_model_goes_while_the_cache_has_room(models: Path) -> None:
    make_room(models, SIZE, 3 * SIZE + RESERVE_BYTES)
    assert there(models) == {OLD, NEW}


def test_a_model_that_a_server_holds_stays(models: Path) -> None:
    held = hold(models / OLD)
    assert held is not None
    make_room(models, SIZE, 2 * SIZE + RESERVE_BYTES)
    os.close(held)
    assert there(models) == {OLD}


def test_a_model_that_a_pull_holds_stays(models: Path) -> None:
    descriptor = open_lock(lock_file(models, OLD))
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    make_room(models, SIZE, 2 * SIZE + RESERVE_BYTES)
    os.close(descriptor)
    assert there(models) == {OLD}


@pytest.mark.case("T30")
def test_models_in_use_are_named_when_they_leave_no_room(models: Path) -> None:
    held = [hold(models / name) for name in (OLD, NEW)]
    with pytest.raises(PullError) as caught:
        make_room(models, SIZE, 2 * SIZE)
    for descriptor in held:
        assert descriptor is not None
        os.close(descriptor)
    said = caught.value.termination
    assert (said.reason, said.actual) == (GaveUp.INSUFFICIENT_STORAGE, "0")
    assert f"need={SIZE + RESERVE_BYTES} free=0" in said.message
    assert f"{2 * SIZE} bytes are held" in said.message
    assert there(models) == {OLD, NEW}


def test_a_model_whose_server_restarts_is_waited_for_and_stays_when_it_comes_back(models: Path) -> None:
    clock = Clock()
    held: list[int | None] = []
    for name in (OLD, NEW):
        (models / f"{caching.IDLE}{name}").unlink()
    plain = clock.sleep

    def sleep(seconds: float) -> None:
        if clock.slept > GRACE_SECONDS / 2 and not held:
            held.append(hold(models / OLD))
        plain(seconds)

    clock.sleep = sleep  # type: ignore[method-assign]
    log = Lines()
    make_room(models, SIZE, 2 * SIZE + RESERVE_BYTES, clock, log)
    assert clock.slept >= GRACE_SECONDS
    assert there(models) == {OLD}
    assert any("a moment ago" in said for said in log.messages("info"))
    os.close(held[0] or -1)


def test_a_model_that_was_asked_for_again_is_idle_no_more(models: Path) -> None:
    clock = Clock()
    Cache(models, OLD, None, Lines(), clock, clock.sleep).note_use()
    assert not (models / f"{caching.IDLE}{OLD}").exists()
    make_room(models, SIZE, 2 * SIZE + RESERVE_BYTES, clock)
    assert there(models) == {OLD}


def test_an_abandoned_partial_model_goes_too_and_counts_with_all_that_it_will_have(models: Path) -> None:
    other = "c" * 64
    partial = models / f".partial-{other}" / "model"
    partial.mkdir(parents=True)
    with (partial / "w").open("wb") as file:
        file.truncate(SIZE)
    mark = models / f"{caching.IDLE}{other}"
    mark.touch()
    os.utime(mark, (NOW - 1e3, NOW - 1e3))
    make_room(models, SIZE, 3 * SIZE + RESERVE_BYTES)
    assert there(models) == {OLD, NEW}


def test_what_a_killed_eviction_left_is_removed(models: Path) -> None:
    (models / f"{caching.DOOMED}{OLD}").mkdir()
    make_room(models, 0, None)
    assert there(models) == {OLD, NEW}


def test_a_full_disk_makes_room_like_a_full_budget(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left: Iterator[int] = iter([SIZE // 2 + RESERVE_BYTES])
    monkeypatch.setattr("backstay_runtime.pull.cache.free", lambda folder: next(left))
    make_room(models, SIZE, None)
    assert there(models) == {NEW}


def test_a_model_that_no_pull_brought_needs_no_hold(tmp_path: Path) -> None:
    assert hold(tmp_path / OLD) is None
