"""Processes that are killed, storages that are slow, and others at the same time."""

import signal
import time

from backstay_contract.names import MANIFEST_FILE, Env

from ..models import MIB, publish, write_model
from ..place import SIZE, WEIGHTS, Place
from .registry import cell, slowly


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
