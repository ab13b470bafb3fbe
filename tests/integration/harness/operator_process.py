"""The operator as a process of its own, inside the control plane's namespace, with the rights of its role only."""

import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import httpx2
from backstay_cluster.control_plane import ControlPlane

RBAC = Path(__file__).parent / "rbac.yaml"
RUNTIME_IMAGE = "registry.test/backstay/runtime:1"
HEALTH_PORT, METRICS_PORT = 18080, 19100


@dataclass(eq=False)
class OperatorProcess:
    """Starts, kills and starts again, as the container of one pod. Each has a lease of its own if `env` names none."""

    plane: ControlPlane
    kubeconfig: Path
    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    number: int = 0
    """Several at the same time have different numbers: their ports follow from it."""
    process: subprocess.Popen[bytes] | None = None
    uid: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    started: ClassVar[list["OperatorProcess"]] = []
    """Those of this test run."""

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def health_port(self) -> int:
        return HEALTH_PORT + self.number

    @property
    def metrics_port(self) -> int:
        return METRICS_PORT + self.number

    @property
    def log(self) -> Path:
        return self.folder / "operator.log"

    def start(self, **env: str) -> None:
        self.must_be_alone()
        command = ["nsenter", f"--net={self.plane.netns}", "--", sys.executable, "-m", "backstay_operator", "run"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=self.environment(**env), stdout=log, stderr=log)

    def must_be_alone(self) -> None:
        """Two operators that see the same resources and share no lease both act: a test would see another's work."""
        for one in OperatorProcess.started:
            assert not (one.alive and self._disturbs(one)), f"another test's operator still runs: {one.folder}"
        OperatorProcess.started.append(self)

    def _disturbs(self, other: "OperatorProcess") -> bool:
        mine, others = self.environment(), other.environment()
        if self.plane is not other.plane or mine["BACKSTAY_LEASE_NAME"] == others["BACKSTAY_LEASE_NAME"]:
            return False
        seen, theirs = ({*env.get("BACKSTAY_WATCH_NAMESPACES", "").split(",")} - {""} for env in (mine, others))
        return not seen or not theirs or bool(seen & theirs)

    def environment(self, **env: str) -> dict[str, str]:
        """What the process is given."""
        key = self.folder / "control-key"
        key.write_text("0123456789abcdef0123456789abcdef")
        settings = {
            "KUBECONFIG": str(self.kubeconfig),
            "BACKSTAY_RUNTIME_IMAGE": RUNTIME_IMAGE,
            "BACKSTAY_CONTROL_KEY_FILE": str(key),
            "BACKSTAY_HEALTH_PORT": str(self.health_port),
            "BACKSTAY_METRICS_PORT": str(self.metrics_port),
            "BACKSTAY_LEASE_NAME": f"backstay-{self.uid}",
            "POD_NAME": f"backstay-operator-{self.number}",
            "POD_UID": self.uid,
        }
        return {**os.environ, **settings, **self.env, **env}

    def kill(self) -> None:
        """As a machine that loses power."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(timeout=10)

    def stop(self) -> int:
        """As Kubernetes does it. Returns the exit code."""
        if self.process is None:
            return 0
        self.process.terminate()
        return self.process.wait(timeout=20)

    def wait_until_healthy(self, seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process is not None and self.process.poll() is not None:
                break
            try:
                self.plane.inside(lambda: httpx2.get(f"http://127.0.0.1:{self.health_port}/healthz", timeout=1))
                return
            except httpx2.HTTPError:
                time.sleep(0.1)
        raise AssertionError(f"the operator is not healthy:\n{self.log.read_text()[-4000:]}")

    def metrics(self) -> str:
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        text: str = self.plane.inside(lambda: httpx2.get(url, timeout=5).text)
        return text
