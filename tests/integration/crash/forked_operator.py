"""The operator as a process that is forked from a prepared one, since a sweep starts hundreds of them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from backstay_cluster.control_plane import ControlPlane

from tests.integration.harness.operator_process import OperatorProcess


class Zygote:
    """The prepared process. A kubeconfig is found when the client's library is imported, so each needs its own."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path) -> None:
        command = ["nsenter", f"--net={plane.netns}", "--", sys.executable, "-m", "tests.integration.crash.zygote"]
        self._lock = threading.Lock()
        root = Path(__file__).parents[3]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=root,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        )

    def fork(self, environment: dict[str, str], log: Path) -> int:
        """The new process's id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps({"env": environment, "log": str(log)}) + "\n")
            return int(self._process.stdout.readline())

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@dataclass(eq=False)
class ForkedOperator(OperatorProcess):
    """Starts and dies as the other one does."""

    zygote: Zygote | None = None
    pid: int | None = None
    guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def alive(self) -> bool:
        return self.pid is not None

    def start(self, **env: str) -> None:
        assert self.zygote is not None
        self.must_be_alone()
        self.pid = self.zygote.fork(self.environment(**env), self.log)

    def kill(self) -> None:
        """As a machine that loses power. Returns once the process is gone."""
        with self.guard:
            pid, self.pid = self.pid, None
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it may have ended by itself: then its log says why
            os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 10
        while Path(f"/proc/{pid}").exists():
            assert time.monotonic() < until, f"process {pid} does not die"
            time.sleep(0.002)
