"""What each verb of the command line does; returns the exit code."""

import argparse
import contextlib
import json
import os
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from backstay_cluster import control_plane, execution, node, prerequisites, programs, state
from backstay_cluster import images as project_images
from backstay_cluster.cluster import Cluster, existing, recorded
from backstay_cluster.errors import ClusterError
from backstay_cluster.progress import Progress
from backstay_cluster.running import log_file

NOT_RUNNING = 3
LACKING = 4


def up(options: argparse.Namespace) -> int:
    """Start or repair."""
    progress = Progress()
    if options.control_plane_only:
        plane = control_plane.start(options.name, progress=progress)
    else:
        plane = node.up(options.name, addons=options.addons, progress=progress)
    progress.say(f"ready after {progress.elapsed_s:.1f} s; export KUBECONFIG={plane.kubeconfig}")
    return 0


def down(options: argparse.Namespace) -> int:
    """End and remove."""
    progress = Progress()
    names = [cluster.name for cluster in existing()] if options.all else [options.name]
    for name in names:
        with progress.step(f"remove cluster {name}") as step:
            step.waits_for("its programs to end")
            control_plane.stop(name, purge=options.purge)
    return 0


def status(options: argparse.Namespace) -> int:
    """Tell how it is."""
    report = state.report(options.name)
    if options.output == "json":
        print(json.dumps(report, indent=2))
    else:
        _show_status(report)
    return 0 if report["healthy"] else NOT_RUNNING


def logs(options: argparse.Namespace) -> int:
    """Show a component's log."""
    cluster = _required(options.name)
    log = log_file(cluster, options.component)
    if not log.exists():
        there = ", ".join(sorted(file.stem for file in cluster.logs.glob("*.log")))
        raise ClusterError(f"no log of {options.component!r}; there are {there or 'none'}")
    with log.open(errors="replace") as lines:
        while True:
            for line in lines:
                print(line, end="")
            if not options.follow:
                return 0
            sys.stdout.flush()
            time.sleep(0.3)


def kubectl(options: argparse.Namespace) -> int:
    """Become kubectl. From the machine's own network, so that port-forward listens where a browser is."""
    cluster = _required(options.name)
    program = str(cluster.bin / "kubectl")
    os.execve(  # noqa: S606 - no shell is what we want
        program, [program, *passed_on(options)], execution.environment(cluster, os.environ)
    )


def execute(options: argparse.Namespace) -> int:
    """Become a command in the cluster's network."""
    argv = passed_on(options)
    if not argv:
        raise ClusterError("exec: no command; for example: exec -- kubectl get nodes")
    execution.replace_by(_required(options.name), argv)


def shell(options: argparse.Namespace) -> int:
    """Become a shell in the cluster's network."""
    execution.replace_by(_required(options.name), [os.environ.get("SHELL", "/bin/sh")])


def build(options: argparse.Namespace) -> int:
    """Build programs; print where they are."""
    progress = Progress()
    names = options.only.split(",") if options.only else programs.DEFAULT
    paths = {name: str(path) for name, path in programs.ensure(names, progress).items()}
    if options.output == "json":
        print(json.dumps(paths, indent=2))
    else:
        for name, path in paths.items():
            print(f"{name:24} {path}")
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Tell what the machine lacks."""
    findings = prerequisites.everything()
    if options.output == "json":
        print(json.dumps([{"what": f.what, "met": f.met, "detail": f.detail, "remedy": f.remedy} for f in findings]))
    else:
        for finding in findings:
            mark = "ok     " if finding.met else "missing"
            print(f"{mark}  {finding.what:20} {finding.detail}{'' if finding.met else f'; {finding.remedy}'}")
    return 0 if all(finding.met for finding in findings if finding.what != "go") else LACKING


def images(options: argparse.Namespace) -> int:
    """Build images."""
    return project_images.main(passed_on(options))


def _required(name: str) -> Cluster:
    cluster = recorded(name)
    if cluster is None:
        raise ClusterError(f"there is no cluster {name!r}; `python -m backstay_cluster up --name {name}` starts it")
    return cluster


def passed_on(options: argparse.Namespace) -> list[str]:
    rest: list[str] = options.arguments
    return rest[1:] if rest[:1] == ["--"] else rest


def _show_status(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    with contextlib.suppress(KeyError):
        console.print(
            f"cluster {report['name']}  {report['server']}  KUBECONFIG={report['kubeconfig']}", soft_wrap=True
        )
    table = Table(box=None)
    for heading in ("COMPONENT", "PID", "STATE"):
        table.add_column(heading)
    for component in report["components"]:
        trouble = component["trouble"]
        table.add_row(component["name"], str(component["pid"] or "-"), "ready" if trouble is None else trouble)
    console.print(table if report["components"] else f"cluster {report['name']} does not exist")
