"""The cluster's network namespace: one link to the machine, no way out."""

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from backstay_cluster.cluster import SERVICE_RANGE, Cluster
from backstay_cluster.shell import run, succeeds

Result = TypeVar("Result")

NODE_INTERFACE = "node0"
_CLONE_NEWNET = 0x40000000


def create(cluster: Cluster) -> None:
    """Make the namespace and its link. It is held by a file in the run folder, not by /run/netns, which
    `ip netns add` would turn into a mount that stays."""
    cluster.netns.touch()
    run(["unshare", f"--net={cluster.netns}", "true"])
    _connect(cluster)
    _mark(cluster).touch()


def complete(cluster: Cluster) -> bool:
    """Whether the namespace is there with all that belongs to it; half of one is what a crash leaves."""
    return exists(cluster.netns) and _mark(cluster).exists()


def _connect(cluster: Cluster) -> None:
    link = ["ip", "link", "add", cluster.link, "type", "veth", "peer", "name", NODE_INTERFACE]
    run([*link, "netns", str(cluster.netns)])
    run(["ip", "addr", "add", f"{cluster.host_address}/30", "dev", cluster.link])
    run(["ip", "link", "set", cluster.link, "up"])
    for command in (
        ["ip", "link", "set", "lo", "up"],
        ["ip", "addr", "add", f"{cluster.node_address}/30", "dev", NODE_INTERFACE],
        ["ip", "link", "set", NODE_INTERFACE, "up"],
        # A device route, though nothing answers there: a Service's address is rewritten only after a route was found.
        ["ip", "route", "add", SERVICE_RANGE, "dev", NODE_INTERFACE],
    ):
        run(inside_command(cluster.netns, command))
    inside(cluster.netns, lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"))


def delete(cluster: Cluster) -> None:
    """Remove the namespace and its link; both ends of a link go together."""
    _mark(cluster).unlink(missing_ok=True)
    _drop_link(cluster)
    while exists(cluster.netns):
        run(["umount", str(cluster.netns)])
    cluster.netns.unlink(missing_ok=True)


def exists(netns: Path) -> bool:
    """Whether a namespace is mounted on the file."""
    return any(line.split()[4] == str(netns) for line in Path("/proc/self/mountinfo").read_text().splitlines())


def inside_command(netns: Path, argv: list[str]) -> list[str]:
    """The command line that runs `argv` in the namespace. sysfs stays the machine's: see `process.start`."""
    return ["nsenter", f"--net={netns}", "--", *argv]


def inside(netns: Path, action: Callable[[], Result]) -> Result:
    """Call `action` in a thread that has entered the namespace; sockets that it opens belong there."""
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def enter_and_act() -> None:
        try:
            with open(netns, "rb") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number), str(netns))
            outcome.append(action())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=enter_and_act, name=f"in {netns}")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def members(netns: Path) -> set[int]:
    """Processes whose network is this namespace."""
    if not exists(netns):
        return set()
    wanted = os.stat(netns)
    found = set()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            namespace = os.stat(f"/proc/{entry.name}/ns/net")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if (namespace.st_dev, namespace.st_ino) == (wanted.st_dev, wanted.st_ino):
            found.add(int(entry.name))
    return found


def _drop_link(cluster: Cluster) -> None:
    if succeeds(["ip", "link", "show", cluster.link]):
        run(["ip", "link", "delete", cluster.link])


def _mark(cluster: Cluster) -> Path:
    return cluster.run / "net.complete"
