"""Bytes that are not the pinned ones never serve, and what serves is not disturbed by them."""

from collections.abc import Callable

import pytest

from tests.e2e.bench import WHERE, Bench
from tests.e2e.story.publish import Pushed

pytestmark = pytest.mark.node
WEIGHTS = "model.safetensors"


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def truncated(content: bytes) -> bytes:
    return content[:-1]


def refused(bench: Bench, first: Pushed, second: Pushed, asked_at: float) -> None:
    """The second model's candidate ends with the reason that its bytes are wrong, and the first serves on."""
    status = bench.until_ended(second, asked_at)
    assert status["attempt"]["outcome"] == "DigestMismatch"
    assert status["active"]["digest"] == first.digest
    assert "DigestMismatch" in bench.kube.run("get", "mdep", bench.name, WHERE)
    assert any(event["reason"] == "DigestMismatch" for event in bench.events())
    candidates = [seen.object["status"].get("candidate") for seen in bench.watch.seen if seen.at >= asked_at]
    assert all(candidate is None or candidate["ready"] == 0 for candidate in candidates), "it never was ready"
    assert [entry["digest"] for entry in status["rejected"]] == [second.digest]
    assert bench.spoken
    assert {(status, digest) for _, status, digest in bench.spoken} == {(200, first.digest)}


@pytest.mark.parametrize("change", [flipped, truncated])
@pytest.mark.case("T27")
def test_a_changed_weight_object_never_serves_and_the_active_model_serves_on(
    bench: Bench, change: Callable[[bytes], bytes]
) -> None:
    first, second = bench.serve(), bench.push("2", seed=1)
    bench.change_object(second, WEIGHTS, change)
    with bench.speaking():
        refused(bench, first, second, bench.ask(second))


def test_a_wrong_digest_in_the_resource_never_serves_and_the_active_model_serves_on(bench: Bench) -> None:
    first, second = bench.serve(), bench.push("2", seed=1)
    wrong = Pushed(second.version, second.uri, "sha256:" + "0123456789abcdef" * 4, second.size)
    with bench.speaking():
        resource = bench.resource(second)
        resource["spec"]["model"]["sha256"] = wrong.digest
        refused(bench, first, wrong, bench.apply(resource))
