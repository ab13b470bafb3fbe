"""Which request is a write, and when a trap springs."""

import pytest

from tests.integration.crash.proxy import Trap, When, Write, described
from tests.integration.harness.api import MDEPS


@pytest.mark.parametrize(
    ("verb", "path", "body", "said"),
    [
        ("PATCH", f"{MDEPS.format(namespace='n')}/chat/status", b"", "PATCH modeldeployments/chat/status"),
        ("POST", "/api/v1/namespaces/n/services", b'{"metadata": {"name": "chat"}}', "POST services/chat"),
        ("DELETE", "/api/v1/namespaces/n/services/chat", b"", "DELETE services/chat"),
    ],
)  # fmt: skip
def test_a_write_is_known_by_verb_and_object(verb: str, path: str, body: bytes, said: str) -> None:
    assert str(described(verb, path, body)) == said


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/api/v1/namespaces/n/services/chat"),
        ("GET", "/api/v1/namespaces/n/pods"),
        ("PATCH", "/apis/coordination.k8s.io/v1/namespaces/n/leases/backstay"),
    ],
)
def test_what_changes_nothing_of_a_resource_is_no_write(verb: str, path: str) -> None:
    assert described(verb, path, b"") is None


def test_a_trap_springs_at_its_number_and_once() -> None:
    write = Write("PATCH", "services", "chat")
    trap = Trap(2, When.AFTER)
    assert [trap.count(one) for one in (write, None, write)] == [None, None, write]
    trap.spring(write)
    assert trap.count(write) is None
    assert (trap.sprung, trap.counted) == (write, 2)


def test_a_trap_has_sprung_only_once_the_process_is_gone() -> None:
    seen: list[Write | None] = []
    trap = Trap(1, kill=lambda: seen.append(trap.sprung))
    trap.spring(Write("PATCH", "services", "chat"))
    assert seen == [None]
