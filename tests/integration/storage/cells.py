"""Every fault on every way: what is done, and what must come of it. Each cell says its outcome in a few words."""

import io
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable

from backstay_contract.names import MANIFEST_FILE, Env
from backstay_contract.termination import EXIT_CODES, GaveUp
from backstay_runtime.hold import hold

from .models import MIB, publish, write_model
from .place import SIZE, SLOW, WEIGHTS, Place, can_mount, make_idle, small_disk
from .processes import Pod, Pulled
from .proxy import Action

Cell = Callable[[Place], str]
CELLS: dict[tuple[str, str], Cell] = {}
WAYS = ("push", "pull", "cache")


class NotHereError(Exception):
    """The machine cannot play this cell."""


def cell(fault: str, way: str) -> Callable[[Cell], Cell]:
    def keep(function: Cell) -> Cell:
        CELLS[fault, way] = function
        return function

    return keep


def slowly(method: str, path: str, headers: dict[str, str]) -> Action | None:
    return Action(bytes_per_second=SLOW) if method in ("GET", "PUT") else None


def refused(pulled: Pulled, reason: GaveUp) -> str:
    assert pulled.termination is not None, pulled.log
    assert (pulled.termination.reason, pulled.code) == (reason, EXIT_CODES[reason]), pulled.termination
    return f"{reason}, nothing visible"


def again(place: Place, pod: Pod, digest: str) -> None:
    """Without the fault the same pod's next try brings the model."""
    place.calm()
    assert pod.pull(digest).code == 0
    assert place.whole(pod, digest)


# ---- kill


@cell("kill", "push")
def _(place: Place) -> str:
    place.rule(slowly)
    process = place.start_push()
    place.until_bytes(8 * MIB)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert place.published() is None
    time.sleep(1.5)  # what the proxy still holds arrives or is lost
    place.calm()
    digest = place.push().out.strip()
    assert place.published() == digest
    return "nothing visible; the next push goes on"


@cell("kill", "pull")
def _(place: Place) -> str:
    digest, pod = place.publish(), place.pod()
    place.rule(slowly)
    process = pod.start(digest)
    place.until_bytes(12 * MIB)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not place.whole(pod, digest)
    place.calm()
    pulled = pod.pull(digest)
    assert place.whole(pod, digest)
    assert place.fetched(pulled) < SIZE
    return "nothing visible; the next pull goes on"


@cell("kill", "cache")
def _(place: Place) -> str:
    digest, first, second = place.publish(), place.pod("a"), place.pod("b")
    place.rule(slowly)
    process = first.start(digest)
    place.until_bytes(12 * MIB)
    waiting = second.start(digest)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    pulled = second.ended(waiting)
    assert place.whole(second, digest)
    assert place.fetched(pulled) < SIZE
    return "the pod that waits takes over"


# ---- bytes that are not the ones


def altered(place: Place, data: bytes) -> None:
    place.server.client().put_object(place.bucket, place.key(), io.BytesIO(data), len(data))


def flipped(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "flip": flipped,
    "truncate": lambda data: data[:-4],
    "wrong size": lambda data: data + bytes(4),
}


def _changed_in_storage(fault: str) -> Cell:
    def play(place: Place) -> str:
        digest, pod = place.publish(), place.pod()
        altered(place, CHANGES[fault]((place.model / WEIGHTS).read_bytes()))
        outcome = refused(pod.pull(digest), GaveUp.DIGEST_MISMATCH)
        assert not place.whole(pod, digest)
        return outcome

    return play


def _changed_under_a_push(fault: str) -> Cell:
    def play(place: Place) -> str:
        file, done = place.model / WEIGHTS, threading.Lock()
        right = file.read_bytes()

        def change() -> None:
            if done.acquire(blocking=False):
                file.write_bytes(CHANGES[fault](right))

        # After the first request the files are hashed, and none of the large one's bytes was sent yet.
        place.rule(lambda method, path, headers: Action(before=change) if method == "HEAD" else None)
        ended = place.push()
        assert ended.code == 3, ended
        assert "changed while it was pushed" in ended.err
        assert place.published() is None
        file.write_bytes(right)
        place.calm()
        assert place.push().code == 0
        assert place.published() is not None
        return "refused, nothing visible; the right bytes then go"

    return play


def _changed_on_the_disk(fault: str) -> Cell:
    def play(place: Place) -> str:
        digest, pod = place.publish(), place.pod("a")
        assert pod.pull(digest).code == 0
        file = pod.model(digest) / WEIGHTS
        file.write_bytes(CHANGES[fault](file.read_bytes()))
        pulled = place.pod("b").pull(digest)
        assert place.whole(pod, digest)
        assert place.fetched(pulled) >= SIZE
        return "seen before use, fetched anew"

    return play


for _fault in CHANGES:
    CELLS[_fault, "push"] = _changed_under_a_push(_fault)
    CELLS[_fault, "pull"] = _changed_in_storage(_fault)
    CELLS[_fault, "cache"] = _changed_on_the_disk(_fault)


# ---- swap


@cell("swap", "push")
def _(place: Place) -> str:
    def swap() -> None:
        altered(place, b"somebody else's")

    looks = itertools.count(1)

    def rule(method: str, path: str, headers: dict[str, str]) -> Action | None:
        # Looked at before the push, after the upload, and a last time before the manifest is sent.
        last = method == "HEAD" and path.endswith(WEIGHTS) and next(looks) == 3
        return Action(before=swap) if last else None

    place.rule(rule)
    ended = place.push()
    assert ended.code == 3, ended
    assert place.published() is None
    return "refused, nothing visible"


@cell("swap", "pull")
def _(place: Place) -> str:
    digest, pod = place.publish(), place.pod()
    data, swapped = flipped((place.model / WEIGHTS).read_bytes()), threading.Lock()

    def swap() -> None:
        if swapped.acquire(blocking=False):
            altered(place, data)

    place.rule(
        lambda method, path, headers: Action(before=swap) if method == "GET" and path.endswith(WEIGHTS) else None
    )
    outcome = refused(pod.pull(digest), GaveUp.DIGEST_MISMATCH)
    assert not place.whole(pod, digest)
    return outcome


@cell("swap", "cache")
def _(place: Place) -> str:
    digest, pod = place.publish(), place.pod("a")
    assert pod.pull(digest).code == 0
    aside = place.folder / "aside"
    aside.write_bytes((place.model / WEIGHTS).read_bytes())
    (pod.model(digest) / WEIGHTS).unlink()
    (pod.model(digest) / WEIGHTS).symlink_to(aside)
    assert place.fetched(place.pod("b").pull(digest)) >= SIZE
    assert place.whole(pod, digest)
    assert not (pod.model(digest) / WEIGHTS).is_symlink()
    return "a link is seen, the file fetched anew"


# ---- what the storage answers

ANSWERS = {
    "403": (403, GaveUp.CREDENTIALS_REJECTED, 6),
    "404": (404, GaveUp.MODEL_NOT_FOUND, 5),
    "5xx": (503, GaveUp.STORAGE_UNREACHABLE, 7),
}


def _answered_to_a_pull(status: int, reason: GaveUp) -> Cell:
    def play(place: Place) -> str:
        digest, pod = place.publish(), place.pod()
        place.rule(lambda method, path, headers: Action(status=status) if path.endswith(WEIGHTS) else None)
        outcome = refused(pod.pull(digest), reason)
        assert not place.whole(pod, digest)
        again(place, pod, digest)
        return outcome

    return play


def _answered_to_a_push(status: int, code: int) -> Cell:
    def play(place: Place) -> str:
        place.rule(lambda method, path, headers: Action(status=status) if method in ("PUT", "POST") else None)
        ended = place.push()
        assert ended.code == code, ended
        assert place.published() is None
        place.calm()
        assert place.push().code == 0
        return f"exit code {code}, nothing visible; the next push goes on"

    return play


def _answered_beside_a_cache(status: int) -> Cell:
    def play(place: Place) -> str:
        digest = place.publish()
        assert place.pod("a").pull(digest).code == 0
        place.rule(lambda method, path, headers: Action(status=status))
        assert place.fetched(place.pod("b").pull(digest)) == 0
        return "not asked: 0 bytes, the model is there"

    return play


for _fault, (_status, _reason, _code) in ANSWERS.items():
    CELLS[_fault, "push"] = _answered_to_a_push(_status, _code)
    CELLS[_fault, "pull"] = _answered_to_a_pull(_status, _reason)
    CELLS[_fault, "cache"] = _answered_beside_a_cache(_status)


# ---- slow


@cell("slow", "push")
def _(place: Place) -> str:
    place.rule(slowly)
    assert place.push().code == 0
    assert place.published() is not None
    return "whole, later"


@cell("slow", "pull")
def _(place: Place) -> str:
    digest, pod = place.publish(), place.pod()
    place.rule(slowly)
    assert pod.pull(digest).code == 0
    assert place.whole(pod, digest)
    return "whole, later"


@cell("slow", "cache")
def _(place: Place) -> str:
    digest, pods = place.publish(), [place.pod(name) for name in "ab"]
    place.rule(slowly)
    ended = [pod.ended(process) for pod, process in [(pod, pod.start(digest)) for pod in pods]]
    assert sum(place.fetched(one) for one in ended) < SIZE + MIB
    assert place.whole(pods[0], digest)
    return "the second pod waits, 0 bytes twice"


# ---- no room


@cell("full disk", "push")
def _(place: Place) -> str:
    place.rule(lambda method, path, headers: Action(status=507) if method in ("PUT", "POST") else None)
    ended = place.push()
    assert ended.code == 7, ended
    assert "507" in ended.err
    assert place.published() is None
    place.calm()
    assert place.push().code == 0
    return "exit code 7, nothing visible; the next push goes on"


@cell("full disk", "pull")
def _(place: Place) -> str:
    if not can_mount():
        raise NotHereError("mounting a small disk needs root")
    digest, pod = place.publish(), place.pod()
    with small_disk(pod.models, 16):
        outcome = refused(pod.pull(digest), GaveUp.INSUFFICIENT_STORAGE)
        assert not place.whole(pod, digest)
    assert not [path for method, path in place.proxy.requests if method == "GET" and WEIGHTS in path]
    again(place, pod, digest)
    return f"{outcome}, no weight byte asked for"


@cell("full disk", "cache")
def _(place: Place) -> str:
    old, pod = place.publish(), place.pod("a")
    assert pod.pull(old).code == 0
    other = write_model(place.folder / "other", SIZE, seed=2)
    new = publish(place.server, other, f"s3://{place.bucket}/m/2")
    second = place.pod("b", f"s3://{place.bucket}/m/2").with_(**{Env.CACHE_BYTES: str(SIZE * 3 // 2 + 16 * MIB)})
    make_idle(pod, old)
    held = hold(pod.model(old))
    refused(second.pull(new), GaveUp.INSUFFICIENT_STORAGE)
    assert place.whole(pod, old), "a model in use was taken away"
    assert held is not None
    os.close(held)
    make_idle(pod, old)
    assert second.pull(new).code == 0
    assert (second.model(new) / WEIGHTS).read_bytes() == (other / WEIGHTS).read_bytes()
    assert not pod.model(old).exists()
    return "a model in use stays, an idle one makes room"


# ---- at the same time


@cell("concurrent", "push")
def _(place: Place) -> str:
    place.rule(slowly)
    processes = [place.start_push() for _ in range(2)]
    ended = [(*process.communicate(), process.returncode) for process in processes]
    # The slower one finds its upload completed by the other, or its connection closed for that.
    assert 0 in {code for _, _, code in ended} <= {0, 3, 7}, ended
    place.calm()
    digest = place.push().out.strip()
    assert place.published() == digest
    return "one is published, the other refused or told to push again"


@cell("concurrent", "pull")
def _(place: Place) -> str:
    digest, pods = place.publish(), [place.pod(name) for name in "abc"]
    ended = [pod.ended(process) for pod, process in [(pod, pod.start(digest)) for pod in pods]]
    assert sum(place.fetched(one) for one in ended) < SIZE + MIB
    assert place.whole(pods[0], digest)
    return "fetched once"


@cell("concurrent", "cache")
def _(place: Place) -> str:
    first = place.publish()
    other = write_model(place.folder / "other", SIZE, seed=2)
    second = publish(place.server, other, f"s3://{place.bucket}/m/2")
    budget = {Env.CACHE_BYTES: str(2 * SIZE + 64 * MIB)}
    pods = [place.pod("a").with_(**budget), place.pod("b", f"s3://{place.bucket}/m/2").with_(**budget)]
    running = [pod.start(digest) for pod, digest in zip(pods, (first, second), strict=True)]
    assert [pod.ended(process).code for pod, process in zip(pods, running, strict=True)] == [0, 0]
    assert place.whole(pods[0], first)
    assert (pods[1].model(second) / WEIGHTS).read_bytes() == (other / WEIGHTS).read_bytes()
    assert (pods[1].model(second) / MANIFEST_FILE).exists()
    return "both whole side by side"


FAULTS = tuple(dict.fromkeys(fault for fault, _ in CELLS))
