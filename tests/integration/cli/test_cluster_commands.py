"""status, retry and promote against a real API server with the committed CRD."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from backstay_cluster.control_plane import ControlPlane

pytestmark = pytest.mark.control_plane

DIGEST = "sha256:" + "ab" * 32
AT = "2026-05-01T12:00:00Z"
ATTEMPT = {
    "id": "a-2",
    "revision": "r2",
    "digest": DIGEST,
    "version": "1.0.0",
    "colour": "green",
    "image": "runtime:1",
    "startedAt": AT,
}
REJECTION = {"digest": DIGEST, "revision": "r2", "version": "1.0.0", "attempt": "a-2", "reason": "Breach", "at": AT}


def resource(**rollout: str) -> dict[str, Any]:
    return {
        "apiVersion": "backstay.dev/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "chat"},
        "spec": {
            "model": {
                "name": "chat",
                "version": "1.0.0",
                "uri": "s3://models/chat/1.0.0",
                "sha256": DIGEST,
                "storage": {"endpoint": "http://minio.minio.svc:9000"},
            },
            "rollout": rollout,
        },
    }


class Cli:
    """The command line with a kubeconfig."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane, self._namespace = plane, namespace
        self._environment = os.environ | {"KUBECONFIG": str(plane.kubeconfig), "COLUMNS": "200"}

    def apply(self, **rollout: str) -> None:
        self._plane.kubectl(
            "apply", f"--namespace={self._namespace}", "--filename=-", text=json.dumps(resource(**rollout))
        )

    def set_status(self, **status: Any) -> None:
        patch = json.dumps({"status": status})
        options = (f"--namespace={self._namespace}", "--subresource=status", "--type=merge", f"--patch={patch}")
        self._plane.kubectl("patch", "mdep", "chat", *options)

    def spec(self) -> dict[str, Any]:
        text = self._plane.kubectl("get", "mdep", "chat", f"--namespace={self._namespace}", "--output=json")
        found: dict[str, Any] = json.loads(text)["spec"]
        return found

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "backstay_cli", *arguments, f"--namespace={self._namespace}"]

    def run(self, *arguments: str, code: int = 0, **environment: str) -> str:
        ended = subprocess.run(
            self.command(*arguments),
            env=self._environment | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    def watch(self, seconds: float) -> str:
        with subprocess.Popen(
            self.command("status", "chat", "--watch"), env=self._environment, stdout=subprocess.PIPE, text=True
        ) as process:
            time.sleep(seconds)
            process.terminate()
            out, _ = process.communicate(timeout=10)
        return out


@pytest.fixture
def cli(control_plane: ControlPlane, crd: str, namespace: str) -> Cli:
    return Cli(control_plane, namespace)


def test_a_fresh_resource_is_shown_before_any_operator_has_seen_it(cli: Cli) -> None:
    cli.apply()
    assert "chat   Pending" in cli.run("status")
    assert "has not seen generation 1" in cli.run("status", "chat")
    assert json.loads(cli.run("status", "chat", "-o", "json"))["spec"]["model"]["sha256"] == DIGEST
    assert [one["metadata"]["name"] for one in json.loads(cli.run("status", "-o", "json"))["items"]] == ["chat"]


def test_watching_shows_the_status_again(cli: Cli) -> None:
    cli.apply()
    assert cli.watch(12).count("asked for") >= 2


def test_a_missing_resource_is_not_found(cli: Cli) -> None:
    assert "not found" in cli.run("status", "chat", code=5)
    assert "not found" in cli.run("retry", "chat", code=5)


def test_a_server_that_is_away_is_unreachable(cli: Cli, control_plane: ControlPlane, tmp_path: Path) -> None:
    away = tmp_path / "kubeconfig"
    away.write_text(control_plane.kubeconfig.read_text().replace(control_plane.server, "https://127.0.0.1:9"))
    assert "cannot be reached" in cli.run("status", code=7, KUBECONFIG=str(away))


def test_a_token_without_rights_is_forbidden(
    cli: Cli, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    token = control_plane.kubectl("create", "token", "default", f"--namespace={namespace}").strip()
    server = {"server": control_plane.server, "certificate-authority": str(control_plane.authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    weak = tmp_path / "kubeconfig"
    weak.write_text(json.dumps(config))
    said = cli.run("status", code=6, KUBECONFIG=str(weak))
    assert "forbidden" in said
    assert token not in said


def test_retry_changes_only_the_token_and_each_time(cli: Cli) -> None:
    cli.apply()
    assert "nothing to retry" in cli.run("retry", "chat", code=3)
    cli.set_status(rejected=[REJECTION])
    before = cli.spec()
    cli.run("retry", "chat")
    first = cli.spec()
    cli.run("retry", "chat")
    tokens = {before["rollout"]["retryToken"], first["rollout"]["retryToken"], cli.spec()["rollout"]["retryToken"]}
    assert len(tokens) == 3
    before["rollout"]["retryToken"] = first["rollout"]["retryToken"]
    assert before == first


def test_promote_names_the_attempt_that_waits(cli: Cli) -> None:
    cli.apply(promotion="Manual")
    cli.set_status(phase="Checking", attempt=ATTEMPT)
    assert "no attempt waits" in cli.run("promote", "chat", code=3)
    cli.set_status(phase="AwaitingPromotion")
    assert "a-2" in cli.run("promote", "chat", "--attempt", "a-1", code=3)
    cli.run("promote", "chat")
    assert cli.spec()["rollout"]["promote"] == "a-2"
