"""What this process may use of the machine: processors, memory, accelerator."""

import os
import subprocess
from pathlib import Path

import torch
from backstay_contract.profile import Hardware

_CGROUP = Path("/sys/fs/cgroup")


def processors() -> int:
    """Threads that compute at once without being throttled: the cgroup's quota, at most the processors allowed."""
    allowed = len(os.sched_getaffinity(0))
    quota = _quota()
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def _quota() -> float | None:
    """Processors' worth of time that the cgroup may use; None without a limit."""
    words = _read(_CGROUP / "cpu.max").split()
    if len(words) == 2 and words[0] != "max":
        return int(words[0]) / int(words[1])
    quota = _read(_CGROUP / "cpu/cpu.cfs_quota_us").strip()
    period = _read(_CGROUP / "cpu/cpu.cfs_period_us").strip()
    if quota.isdigit() and period.isdigit():
        return int(quota) / int(period)
    return None


def memory_left() -> int:
    """Bytes of memory that this process may still take."""
    limits = [_available()]
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        most, now = _read(_CGROUP / limit).strip(), _read(_CGROUP / used).strip()
        if most.isdigit() and now.isdigit():
            limits.append(int(most) - int(now) + _reclaimable())
    return max(0, min(limits))


def _available() -> int:
    """Bytes that the whole machine can give without swapping."""
    for line in _read(Path("/proc/meminfo")).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _reclaimable() -> int:
    """Bytes of files in memory, which the kernel gives up when memory is asked for."""
    for line in (_read(_CGROUP / "memory.stat") or _read(_CGROUP / "memory/memory.stat")).splitlines():
        name, _, value = line.partition(" ")
        if name == "inactive_file":
            return int(value)
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def hardware() -> Hardware:
    """The accelerators that this process sees."""
    if not torch.cuda.is_available():
        return Hardware()
    first = torch.cuda.get_device_properties(0)
    return Hardware(
        gpu=first.name,
        count=torch.cuda.device_count(),
        memory_gi_b=first.total_memory / 2**30,
        driver=_driver(),
        cuda=torch.version.cuda,
    )


def _driver() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = ended.stdout.split()
    return lines[0] if lines else None


def devices() -> list[torch.device]:
    """Where the model's layers may go, in order."""
    return [torch.device("cuda", number) for number in range(torch.cuda.device_count())] or [torch.device("cpu")]


def device_memory_left(device: torch.device) -> int:
    """Bytes of the device's memory that this process may still take: with what torch holds and nobody uses."""
    if device.type != "cuda":
        return memory_left()
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + held


def device() -> torch.device:
    """Where the model goes."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
