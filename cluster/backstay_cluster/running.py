"""Bringing components up and telling how they are; the same code starts, repairs and watches."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from backstay_cluster import probe, process
from backstay_cluster.cluster import Cluster
from backstay_cluster.components import Component
from backstay_cluster.errors import ClusterError
from backstay_cluster.progress import Progress, Step

_POLL_S = 0.1
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Health:
    """How one component is. `trouble` is None when it is ready."""

    component: str
    pid: int | None
    trouble: str | None


def pid_file(cluster: Cluster, name: str) -> Path:
    """Where a component's process is recorded."""
    return cluster.pids / f"{name}.json"


def log_file(cluster: Cluster, name: str) -> Path:
    """Where a component's output goes."""
    return cluster.logs / f"{name}.log"


def environment(cluster: Cluster) -> dict[str, str]:
    """What a component finds in its environment: the built programs first on PATH, nothing of the caller's."""
    return {
        "PATH": f"{cluster.bin}:{SYSTEM_PATH}",
        "HOME": str(cluster.run),
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),  # noqa: S108 - the system's default for all programs
        "LANG": "C.UTF-8",
    }


def bring_up(cluster: Cluster, components: Sequence[Component], progress: Progress, *, limit_s: float = 120) -> None:
    """Start what does not run and wait until all are ready; each is started as soon as what it needs is ready. One
    that runs with another command line than wanted is started anew. ClusterError with the log's end when one dies
    or is not ready in time."""
    until = time.monotonic() + limit_s
    ready: set[str] = set()
    started = {each.name: running for each in components if (running := _running(cluster, each)) is not None}
    missing = [component.name for component in components if component.name not in started]
    with progress.step(f"start {len(missing)} components" if missing else "components that run already") as step:
        step.note = ", ".join(missing)
        while len(ready) < len(components):
            for component in components:
                if component.name in ready or not ready.issuperset(component.needs):
                    continue
                if component.name not in started:
                    started[component.name] = _start(cluster, component)
                trouble = _trouble(cluster, component, started[component.name])
                if trouble is None:
                    ready.add(component.name)
                else:
                    _still_waiting(cluster, component, trouble, step, until)
            if len(ready) < len(components):
                time.sleep(_POLL_S)


def health(cluster: Cluster, component: Component) -> Health:
    """How the component is now."""
    recorded = process.recorded(pid_file(cluster, component.name))
    if recorded is None or not process.alive(recorded):
        return Health(component.name, None, "not running")
    return Health(component.name, recorded.pid, probe.trouble(component.ready, cluster.netns))


def processes(cluster: Cluster) -> dict[str, process.Process]:
    """All components that were started and not stopped, by name."""
    found = {file.stem: process.recorded(file) for file in sorted(cluster.pids.glob("*.json"))}
    return {name: recorded for name, recorded in found.items() if recorded is not None}


def _running(cluster: Cluster, component: Component) -> process.Process | None:
    recorded = process.recorded(pid_file(cluster, component.name))
    if recorded is None or not process.alive(recorded):
        return None
    if recorded.argv == component.argv:
        return recorded
    process.stop([recorded], grace_s=10)
    return None


def _start(cluster: Cluster, component: Component) -> process.Process:
    return process.start(
        component.argv,
        netns=cluster.netns,
        log=log_file(cluster, component.name),
        pid_file=pid_file(cluster, component.name),
        environment={**environment(cluster), **component.environment},
    )


def _trouble(cluster: Cluster, component: Component, running: process.Process) -> str | None:
    if process.alive(running):
        return probe.trouble(component.ready, cluster.netns)
    log = log_file(cluster, component.name)
    raise ClusterError(f"{component.name} ended by itself; the end of {log}:\n{process.tail(log)}")


def _still_waiting(cluster: Cluster, component: Component, trouble: str, step: Step, until: float) -> None:
    step.waits_for(f"{component.name} ({trouble})")
    if time.monotonic() > until:
        log = log_file(cluster, component.name)
        raise ClusterError(f"{component.name} is not ready: {trouble}; the end of {log}:\n{process.tail(log)}")
