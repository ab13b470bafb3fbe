"""abort, rollback, pause, resume and history against a real API server with the committed CRD."""

import json
import threading
import time
from typing import Any

import pytest
from backstay_cluster.control_plane import ControlPlane

from .test_cluster_commands import AT, ATTEMPT, DIGEST, Cli, resource

pytestmark = pytest.mark.control_plane

OLD = "a" * 12
RECIPE = {"model": resource()["spec"]["model"]}
SERVED = {
    "revision": OLD,
    "digest": DIGEST,
    "version": "0.9.0",
    "image": "runtime:1",
    "verified": True,
    "reason": "Verified",
    "at": AT,
    "recipe": RECIPE,
}
ACTIVE = {"colour": "green", "version": "1.0.0", "digest": DIGEST, "revision": "b" * 12, "ready": 1, "replicas": 1}


@pytest.fixture
def cli(control_plane: ControlPlane, crd: str, namespace: str) -> Cli:
    return Cli(control_plane, namespace)


def test_pause_and_resume_change_one_field_and_refuse_to_do_nothing(cli: Cli) -> None:
    cli.apply()
    assert "would set rollout.paused" in cli.run("pause", "chat", "--dry-run")
    assert cli.spec()["rollout"]["paused"] is False
    cli.run("pause", "chat")
    assert cli.spec()["rollout"]["paused"] is True
    assert "backstay resume" in cli.run("pause", "chat", code=3)
    cli.run("resume", "chat")
    assert cli.spec()["rollout"]["paused"] is False


def test_abort_names_the_open_attempt(cli: Cli) -> None:
    cli.apply()
    assert "no attempt is open" in cli.run("abort", "chat", code=3)
    cli.set_status(phase="Starting", attempt=ATTEMPT)
    assert "a-2" in cli.run("abort", "chat", "--attempt", "a-1", code=3)
    said = json.loads("{" + cli.run("abort", "chat", "-o", "json").partition("{")[2].rpartition("}")[0] + "}")
    assert said["spec"] == {"rollout": {"abort": "a-2"}}
    assert cli.spec()["rollout"]["abort"] == "a-2"


def test_rollback_pins_a_revision_of_the_history_and_clears_it_again(cli: Cli) -> None:
    cli.apply()
    assert "no other revision" in cli.run("rollback", "chat", code=3)
    cli.set_status(phase="Serving", active=ACTIVE, history=[SERVED])
    assert OLD in cli.run("history", "chat")
    assert "no such revision or version" in cli.run("rollback", "chat", "--to", "7.7.7", code=3)
    cli.run("rollback", "chat", "--to", "0.9.0")
    assert cli.spec()["rollout"]["rollbackTo"] == OLD
    cli.run("rollback", "chat", "--clear")
    assert cli.spec()["rollout"]["rollbackTo"] == ""


def test_waiting_ends_when_the_operator_has_brought_the_revision_back(cli: Cli) -> None:
    cli.apply()
    cli.set_status(phase="Serving", active=ACTIVE, history=[SERVED])
    back: dict[str, Any] = ACTIVE | {"revision": OLD, "version": "0.9.0"}

    def operator() -> None:
        while cli.spec()["rollout"]["rollbackTo"] != OLD:
            time.sleep(0.2)
        cli.set_status(observedGeneration=2, phase="Starting", reason="NewRevision")
        time.sleep(3)
        cli.set_status(phase="Soaking", reason="Promoted", active=back)

    thread = threading.Thread(target=operator)
    thread.start()
    said = cli.run("rollback", "chat", "--wait", "--timeout", "60")
    thread.join()
    assert "Starting: NewRevision" in said
    assert "Soaking: Promoted" in said
    assert "not within --timeout" in cli.run("pause", "chat", "--wait", "--timeout", "1", code=8)
