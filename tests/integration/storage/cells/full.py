"""No room: in the storage, on the disk, in the cache."""

import os

from backstay_contract.names import Env
from backstay_contract.termination import GaveUp
from backstay_runtime.hold import hold

from ..models import MIB, publish, write_model
from ..place import SIZE, WEIGHTS, Place, can_mount, make_idle, small_disk
from ..proxy import Action
from .registry import NotHereError, again, cell, refused


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
