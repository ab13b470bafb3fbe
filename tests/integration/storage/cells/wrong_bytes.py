"""Bytes that are not the ones that were pushed."""

import io
import threading
from collections.abc import Callable

from backstay_contract.termination import GaveUp

from ..place import SIZE, WEIGHTS, Place
from ..proxy import Action
from .registry import CELLS, Cell, cell, refused


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


@cell("swap", "push")
def _(place: Place) -> str:
    def swap() -> None:
        altered(place, b"somebody else's")

    sent = threading.Event()

    def rule(method: str, path: str, headers: dict[str, str]) -> Action | None:
        # Two POSTs begin and end the upload; what is there is looked at before it, and before the manifest is sent.
        if path.endswith(WEIGHTS) and method == "POST":
            sent.set()
        looks = path.endswith(WEIGHTS) and method == "HEAD"
        return Action(before=swap) if looks and sent.is_set() else None

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
