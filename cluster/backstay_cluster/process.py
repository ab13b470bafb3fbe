"""Programs in the background: started, found again by later commands, and never confused with a stranger's."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.05


@dataclass(frozen=True)
class Process:
    """A started program. The start time tells it from a later program that got the same pid."""

    pid: int
    born: int
    """Clock ticks after boot, as in /proc/PID/stat."""
    argv: tuple[str, ...]


def start(argv: Sequence[str], *, netns: Path, log: Path, pid_file: Path, environment: Mapping[str, str]) -> Process:
    """Start the program in the namespace, in a session of its own; it outlives us. The pid is the program's own,
    as nsenter replaces itself. Standard output and error are appended to the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    pid_file.parent.mkdir(parents=True, exist_ok=True)
    # --net only: entering a mount namespace as `ip netns exec` does would hide the cgroup file systems.
    command = ["nsenter", f"--net={netns}", "--wd=/", "--", *argv]
    pid = os.posix_spawnp(
        "nsenter",
        command,
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGPIPE],
    )
    born = _born(pid)
    process = Process(pid, born if born is not None else -1, tuple(argv))
    partial = pid_file.with_suffix(".part")
    partial.write_text(json.dumps({"pid": pid, "born": process.born, "argv": list(argv)}))
    partial.rename(pid_file)
    return process


def recorded(pid_file: Path) -> Process | None:
    """The program that the pid file tells of, running or not."""
    try:
        stored = json.loads(pid_file.read_text())
        return Process(int(stored["pid"]), int(stored["born"]), tuple(stored["argv"]))
    except (FileNotFoundError, KeyError, ValueError):
        return None


def alive(process: Process) -> bool:
    """Whether that very program still runs: same pid, same start time, same command line."""
    if _born(process.pid) != process.born:
        return False
    line = _command_line(process.pid)
    # Empty for the moment in which nsenter becomes the program.
    return not line or line[-len(process.argv) :] == process.argv


def stop(processes: Iterable[Process], *, grace_s: float) -> None:
    """End the programs: asked first, killed after the grace period; returns when all are gone."""
    left = [process for process in processes if alive(process)]
    _signal(left, signal.SIGTERM)
    left = _wait(left, grace_s)
    _signal(left, signal.SIGKILL)
    _wait(left, 10.0)


def stop_pids(pids: Iterable[int], *, grace_s: float) -> None:
    """End processes that are known by pid only; a pid that is taken over meanwhile is left alone."""
    known = [(pid, _born(pid)) for pid in pids]
    stop([Process(pid, born, _command_line(pid)) for pid, born in known if born is not None], grace_s=grace_s)


def tail(log: Path, lines: int = 12) -> str:
    """The last lines of a log, for an error message."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def ancestors(pid: int) -> set[int]:
    """The process and all that started it."""
    chain: set[int] = set()
    while pid > 0 and pid not in chain:
        chain.add(pid)
        fields = _stat(pid)
        pid = int(fields[1]) if fields else 0
    return chain


def _signal(processes: Iterable[Process], number: signal.Signals) -> None:
    for process in processes:
        if alive(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)


def _wait(processes: list[Process], seconds: float) -> list[Process]:
    until = time.monotonic() + seconds
    left = processes
    while left and time.monotonic() < until:
        time.sleep(_POLL_S)
        left = [process for process in left if alive(process)]
    return left


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third (state) on: the second may hold blanks and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _born(pid: int) -> int | None:
    """Start time, or None when the process has ended. A child of ours that ended is taken off the process table."""
    fields = _stat(pid)
    if not fields:
        return None
    if fields[0] in "ZX":
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        return None
    return int(fields[19])


def _command_line(pid: int) -> tuple[str, ...]:
    try:
        return tuple(Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1])
    except (FileNotFoundError, ProcessLookupError):
        return ()
