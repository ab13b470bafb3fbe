"""Pulls that are hit on the way: kills, lost connections, swaps, full disks, and others at the same time."""

import io
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from backstay_contract.names import Env
from backstay_contract.termination import GaveUp

from .models import MIB, publish, write_model
from .processes import Pod
from .proxy import Action, Proxy
from .server import Server

WEIGHTS = "model.safetensors"
SIZE = 40 * MIB


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model", SIZE)


@pytest.fixture
def digest(storage: Server, folder: Path, pod: Pod) -> str:
    return publish(storage, folder, pod.environment[Env.MODEL_URI])


@pytest.fixture
def slow(pod: Pod, proxy: Proxy, digest: str) -> Pod:
    """A pod whose storage gives about 10 MB/s."""
    proxy.rule = lambda method, path, headers: Action(bytes_per_second=10e6) if method == "GET" else None
    return pod.with_(**{Env.STORAGE_ENDPOINT: proxy.endpoint})


def wait_for_bytes(proxy: Proxy, count: int) -> None:
    deadline = time.monotonic() + 60
    while proxy.bytes_out < count:
        assert time.monotonic() < deadline, f"only {proxy.bytes_out} bytes came"
        time.sleep(0.01)


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)


def assert_whole(pod: Pod, digest: str, folder: Path) -> None:
    assert pod.visible() == [digest.removeprefix("sha256:")]
    assert (pod.model(digest) / WEIGHTS).read_bytes() == (folder / WEIGHTS).read_bytes()
    assert not list(pod.models.glob(".partial-*"))


def test_a_killed_pull_goes_on_where_it_stopped(slow: Pod, proxy: Proxy, digest: str, folder: Path) -> None:
    process = slow.start(digest)
    wait_for_bytes(proxy, 14 * MIB)
    kill(process)
    assert slow.visible() == []
    before = proxy.bytes_out
    proxy.rule = lambda method, path, headers: None
    pulled = slow.pull(digest)
    assert pulled.code == 0
    assert_whole(slow, digest, folder)
    whole = pulled.said("model is whole")
    assert whole["resumed"] >= 8 * MIB
    assert whole["resumed"] + whole["fetched"] == whole["bytes"]
    assert proxy.bytes_out - before < whole["bytes"] - whole["resumed"] + MIB


def test_a_pull_that_is_killed_again_and_again_ends_whole(slow: Pod, proxy: Proxy, digest: str, folder: Path) -> None:
    moments = random.Random(7)
    for _ in range(6):
        process = slow.start(digest)
        time.sleep(0.5 + moments.random())
        kill(process)
        assert slow.visible() in ([], [digest.removeprefix("sha256:")])
    proxy.rule = lambda method, path, headers: None
    assert slow.pull(digest).code == 0
    assert_whole(slow, digest, folder)


def test_a_terminated_pull_ends_at_once(slow: Pod, proxy: Proxy, digest: str) -> None:
    process = slow.start(digest)
    wait_for_bytes(proxy, 4 * MIB)
    began = time.monotonic()
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - began < 2


def test_pulls_at_the_same_time_fetch_a_digest_once(slow: Pod, proxy: Proxy, digest: str, folder: Path) -> None:
    processes = [slow.start(digest) for _ in range(3)]
    pulls = [slow.ended(process) for process in processes]
    assert [pulled.code for pulled in pulls] == [0, 0, 0]
    assert_whole(slow, digest, folder)
    assert proxy.bytes_out < SIZE + MIB


def test_a_pull_takes_over_from_one_that_was_killed_while_it_waited(
    slow: Pod, proxy: Proxy, digest: str, folder: Path
) -> None:
    first, second = slow.start(digest), None
    wait_for_bytes(proxy, 8 * MIB)
    second = slow.start(digest)
    time.sleep(1.0)
    kill(first)
    pulled = slow.ended(second)
    assert pulled.code == 0
    assert pulled.said("model is whole")["resumed"] > 0
    assert_whole(slow, digest, folder)


def test_lost_connections_cost_only_what_was_lost(pod: Pod, proxy: Proxy, digest: str, folder: Path) -> None:
    left = [5]

    def rule(method: str, path: str, headers: dict[str, str]) -> Action | None:
        if method == "GET" and path.endswith(WEIGHTS) and left[0] > 0:
            left[0] -= 1
            return Action(lose_after=3 * MIB + 17)
        return None

    proxy.rule = rule
    pulled = pod.with_(**{Env.STORAGE_ENDPOINT: proxy.endpoint}).pull(digest)
    assert pulled.code == 0
    assert_whole(pod, digest, folder)
    assert proxy.bytes_out < SIZE + 5 * MIB


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_storage_that_is_busy_for_a_while_is_asked_again(
    pod: Pod, proxy: Proxy, digest: str, folder: Path, status: int
) -> None:
    left = [2]

    def rule(method: str, path: str, headers: dict[str, str]) -> Action | None:
        if left[0] > 0:
            left[0] -= 1
            return Action(status=status)
        return None

    proxy.rule = rule
    assert pod.with_(**{Env.STORAGE_ENDPOINT: proxy.endpoint}).pull(digest).code == 0
    assert_whole(pod, digest, folder)


@pytest.mark.case("T29")
def test_a_storage_that_nobody_answers_for_is_unreachable(pod: Pod, digest: str, proxy: Proxy) -> None:
    proxy.rule = lambda method, path, headers: Action(status=503)
    pulled = pod.with_(**{Env.STORAGE_ENDPOINT: proxy.endpoint}).pull(digest)
    assert pulled.termination is not None
    assert (pulled.code, pulled.termination.reason) == (13, GaveUp.STORAGE_UNREACHABLE)
    assert "503" in pulled.termination.message
    assert 2 <= len(proxy.requests) <= 10


def swapping(proxy: Proxy, storage: Server, bucket: str, data: bytes) -> None:
    """Replaces the weights' object after it was looked up and before its bytes are asked for."""
    done = threading.Lock()

    def swap() -> None:
        if done.acquire(blocking=False):
            storage.client().put_object(bucket, f"m/1/{WEIGHTS}", io.BytesIO(data), len(data))

    def rule(method: str, path: str, headers: dict[str, str]) -> Action | None:
        return Action(before=swap) if method == "GET" and path.endswith(WEIGHTS) else None

    proxy.rule = rule


@pytest.mark.case("T27")
def test_an_object_swapped_after_it_was_looked_up_is_a_mismatch(
    pod: Pod, proxy: Proxy, digest: str, folder: Path, storage: Server, bucket: str
) -> None:
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[-1] ^= 1
    swapping(proxy, storage, bucket, bytes(data))
    pulled = pod.with_(**{Env.STORAGE_ENDPOINT: proxy.endpoint}).pull(digest)
    assert pulled.termination is not None
    assert (pulled.code, pulled.termination.path) == (10, WEIGHTS)
    assert pulled.said("object replaced while it was read")["path"] == WEIGHTS
    assert pod.visible() == []


def test_an_object_swapped_for_the_same_bytes_is_fetched_anew(
    pod: Pod, proxy: Proxy, digest: str, folder: Path, storage: Server, bucket: str
) -> None:
    # Sent in one part instead of several, the same bytes have another ETag.
    swapping(proxy, storage, bucket, (folder / WEIGHTS).read_bytes())
    assert pod.with_(**{Env.STORAGE_ENDPOINT: proxy.endpoint}).pull(digest).code == 0
    assert_whole(pod, digest, folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own with 64 MiB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.case("T30")
def test_a_disk_without_room_is_seen_before_a_weight_byte_is_asked_for(
    pod: Pod, proxy: Proxy, digest: str, small_disk: Path
) -> None:
    (small_disk / "neighbour").write_bytes(bytes(20 * MIB))
    pod = pod.with_(**{Env.MODELS_FOLDER: str(small_disk / "models"), Env.STORAGE_ENDPOINT: proxy.endpoint})
    pulled = pod.pull(digest)
    assert pulled.termination is not None
    assert (pulled.code, pulled.termination.reason) == (15, GaveUp.INSUFFICIENT_STORAGE)
    assert "need=" in pulled.termination.message
    assert not [path for method, path in proxy.requests if method == "GET" and WEIGHTS in path]


def test_a_disk_that_fills_up_under_the_pull_ends_it_and_the_next_goes_on(
    slow: Pod, proxy: Proxy, digest: str, small_disk: Path, folder: Path
) -> None:
    slow = slow.with_(**{Env.MODELS_FOLDER: str(small_disk / "models")})
    process = slow.start(digest)
    wait_for_bytes(proxy, 8 * MIB)
    (small_disk / "neighbour").write_bytes(bytes(40 * MIB))
    pulled = slow.ended(process)
    assert pulled.termination is not None
    assert (pulled.code, pulled.termination.reason) == (15, GaveUp.INSUFFICIENT_STORAGE)
    assert slow.visible() == []
    (small_disk / "neighbour").unlink()
    again = slow.pull(digest)
    assert again.code == 0
    assert again.said("model is whole")["resumed"] > 0
    assert_whole(slow, digest, folder)
