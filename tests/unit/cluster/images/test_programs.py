import shutil
import signal
import subprocess
import threading
import time
from io import StringIO
from pathlib import Path

import pytest
from backstay_cluster import toolchain
from backstay_cluster.errors import ClusterError
from backstay_cluster.images import monitoring, recipes
from backstay_cluster.progress import Progress

GO = """\
#!/bin/sh
echo "$@" >> "$LOG"
echo example.com/package >&2
[ -z "$FAIL" ] || { echo "main.go:1: no" >&2; exit 1; }
while [ "$1" != "-o" ]; do shift; done
sleep 0.2
echo program > "$2"
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Go that takes no time; the file holds the arguments of its calls."""
    (tmp_path / "go").write_text(GO)
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setattr(toolchain, "go", lambda progress: tmp_path / "go")
    monkeypatch.setenv("LOG", str(tmp_path / "calls"))
    monkeypatch.setenv("BACKSTAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "calls"


def test_prometheus_is_built_once_with_the_discovery_of_pods_alone(calls: Path) -> None:
    callers = [threading.Thread(target=monitoring.ensure, args=[Progress(StringIO())]) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    (call,) = calls.read_text().splitlines()
    assert "-tags remove_all_sd,enable_kubernetes_sd" in call
    assert monitoring.location().read_text() == "program\n"


def test_a_failed_build_says_why_and_leaves_no_program(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIL", "1")
    with pytest.raises(ClusterError, match=r"main\.go:1: no"):
        monitoring.ensure(Progress(StringIO()))
    assert not monitoring.location().exists()


def test_prometheus_with_another_discovery_is_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    before = monitoring.key()
    monkeypatch.setattr(monitoring, "TAGS", "remove_all_sd,enable_dns_sd")
    assert monitoring.key() != before


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_pause_program_waits_until_it_is_asked_to_end(tmp_path: Path, number: signal.Signals) -> None:
    program = tmp_path / "pause"
    subprocess.run(["gcc", *recipes.PAUSE_FLAGS, "-Wall", "-Werror", "-o", program, recipes.PAUSE_SOURCE], check=True)
    with subprocess.Popen([program]) as pause:
        time.sleep(0.2)
        assert pause.poll() is None
        pause.send_signal(number)
        assert pause.wait(timeout=5) == 0
