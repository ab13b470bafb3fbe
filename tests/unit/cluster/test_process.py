import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from backstay_cluster import process
from backstay_cluster.process import Process

SLEEP = ("sleep", "60")
STUBBORN = (sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); print(1); time.sleep(60)")


def _known(child: "subprocess.Popen[bytes]", argv: tuple[str, ...]) -> Process:
    born = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
    return Process(child.pid, born, argv)


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(SLEEP) as child:
        while not Path(f"/proc/{child.pid}/cmdline").read_bytes():
            time.sleep(0.01)  # it is between its old program and its new one
        yield child
        child.kill()


def test_a_program_is_known_again_by_pid_start_and_command_line(sleeper: "subprocess.Popen[bytes]") -> None:
    known = _known(sleeper, SLEEP)
    assert process.alive(known)
    assert not process.alive(replace(known, born=known.born + 1))
    assert not process.alive(replace(known, argv=("sleep", "61")))


def test_a_stranger_that_got_the_same_pid_is_not_killed(sleeper: "subprocess.Popen[bytes]") -> None:
    known = _known(sleeper, SLEEP)
    process.stop([replace(known, born=known.born - 5), replace(known, argv=("etcd",))], grace_s=0.1)
    assert sleeper.poll() is None


def test_a_program_that_ends_when_asked_is_not_waited_for_any_longer(sleeper: "subprocess.Popen[bytes]") -> None:
    began = time.monotonic()
    process.stop([_known(sleeper, SLEEP)], grace_s=30)
    assert time.monotonic() - began < 10
    assert sleeper.wait() in (-15, 0)  # 0: its exit status was taken by `stop` already


def test_a_program_that_does_not_listen_is_killed_after_its_grace() -> None:
    with subprocess.Popen(STUBBORN, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # by now it ignores SIGTERM
        known = _known(child, STUBBORN)
        process.stop([known], grace_s=0.2)
        assert not process.alive(known)


def test_a_zombie_counts_as_ended() -> None:
    with subprocess.Popen(["true"]) as child:
        born = _known(child, ("true",)).born
        for _ in range(200):
            if not process.alive(Process(child.pid, born, ("true",))):
                return
            time.sleep(0.02)
    pytest.fail("a process that had ended counted as alive for 4 s")


def test_a_pid_file_that_is_missing_or_damaged_tells_of_no_program(tmp_path: Path) -> None:
    file = tmp_path / "etcd.json"
    assert process.recorded(file) is None
    for content in ("", "{", json.dumps({"pid": 1}), json.dumps({"pid": "x", "born": 1, "argv": []})):
        file.write_text(content)
        assert process.recorded(file) is None
    file.write_text(json.dumps({"pid": 1, "born": 2, "argv": ["etcd"]}))
    assert process.recorded(file) == Process(1, 2, ("etcd",))


def test_the_ancestors_of_a_process_reach_from_itself_to_the_first(sleeper: "subprocess.Popen[bytes]") -> None:
    chain = process.ancestors(sleeper.pid)
    assert {sleeper.pid, os.getpid(), 1} <= chain
    assert process.ancestors(999_999_999) == {999_999_999}


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert process.tail(log) == ""
    log.write_bytes(b"".join(b"line %d \xff\n" % number for number in range(30)))
    assert process.tail(log, 2).splitlines()[0].startswith("line 28")
