"""`kubectl delete mdep` leaves nothing behind, whatever else is away."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.bench import WHERE, Bench

pytestmark = pytest.mark.node
WITHIN_SECONDS = 60.0


def delete(bench: Bench) -> None:
    """Delete the resource; nothing of it is left within the time that is promised."""
    began = time.monotonic()
    bench.kube.run("delete", "mdep", bench.name, WHERE, "--timeout=60s", timeout_s=70)
    while bench.children() and time.monotonic() - began < WITHIN_SECONDS:
        time.sleep(0.5)
    assert bench.children() == []
    assert time.monotonic() - began < WITHIN_SECONDS


@contextmanager
def away(bench: Bench, *deployments: tuple[str, str]) -> Iterator[None]:
    """Without these Deployments (namespace, name) for as long as the block runs."""
    for namespace, name in deployments:
        where = f"--namespace={namespace}"
        bench.kube.run("scale", "deployment", name, where, "--replicas=0")
        bench.kube.run(
            "wait", "pods", where, f"--selector=app.kubernetes.io/name={name}", "--for=delete", "--timeout=60s"
        )
    try:
        yield
    finally:
        for namespace, name in deployments:
            where = f"--namespace={namespace}"
            bench.kube.run("scale", "deployment", name, where, "--replicas=1")
        for namespace, name in deployments:
            bench.kube.run("rollout", "status", f"deployment/{name}", f"--namespace={namespace}", "--timeout=60s")


@pytest.mark.case("T16")
def test_a_deleted_resource_leaves_nothing_behind(bench: Bench) -> None:
    bench.serve()
    assert f"Service/{bench.name}" in bench.children()
    delete(bench)


def test_a_resource_deleted_in_the_middle_of_a_rollout_leaves_nothing_behind(bench: Bench) -> None:
    bench.serve()
    second = bench.push("2", seed=1)
    asked_at = bench.ask(second)
    bench.until(lambda status: status.get("candidate") is not None, 30, since=asked_at)
    delete(bench)


@pytest.mark.case("T34")
def test_deletion_needs_neither_the_storage_nor_prometheus(bench: Bench) -> None:
    """Last in its module: with the storage's pod its objects go too."""
    bench.serve()
    resource = bench.resource(bench.push("2", seed=1))
    with away(bench, ("minio", "minio"), ("monitoring", "prometheus")):
        asked_at = bench.apply(resource)
        bench.until(lambda status: status.get("candidate") is not None, 30, since=asked_at)
        delete(bench)
