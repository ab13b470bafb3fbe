"""How the commands that change a ModelDeployment's spec do so, say so, and wait."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from backstay_contract.resource import ModelDeploymentSpec, parse_spec
from backstay_contract.status import ModelDeploymentStatus, parse_status

from backstay_cli import console
from backstay_cli.commands.cluster_options import cluster_of
from backstay_cli.console import Output
from backstay_cli.errors import CliError, Exit
from backstay_cli.resource.ask import Change
from backstay_cli.resource.waiting import Progress, line_of

if TYPE_CHECKING:
    from backstay_cli.resource.cluster import Cluster

Ask = Callable[[ModelDeploymentSpec, ModelDeploymentStatus], Change]
POLL_SECONDS = 1.0

Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has come about, and show how far it is.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, help="With --wait: seconds to wait at most.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be changed, and change nothing.")]
LONG = 1800.0
"""Seconds; a candidate may take that long until the flip."""


class Which(NamedTuple):
    """The resource, as the options name it."""

    name: str
    namespace: str | None
    context: str | None


@dataclass(frozen=True, kw_only=True)
class How:
    """What is done beside the change."""

    output: Output
    dry_run: bool
    wait: bool
    timeout: float


def change(which: Which, how: How, ask: Ask) -> None:
    """Changes the spec as `ask` says, unless it was changed since it was read. Raises CliError."""
    cluster = cluster_of(which.context)
    name, where = which.name, which.namespace or cluster.namespace
    found = cluster.get(name, where)
    asked = ask(parse_spec(found["spec"]), parse_status(found.get("status") or {}))
    console.note(f"{name}: {'would set ' if how.dry_run else ''}{asked.said}")
    if not how.dry_run:
        found = cluster.patch_spec(name, where, asked.patch, found["metadata"]["resourceVersion"])
        if how.wait:
            found = _wait(cluster, name, where, asked, found["metadata"]["generation"], how.timeout)
    if how.output is Output.JSON:
        status = parse_status(found.get("status") or {})
        console.result_json(
            {
                "name": name,
                "namespace": where,
                "dryRun": how.dry_run,
                "spec": asked.patch,
                "said": asked.said,
                "phase": str(status.phase),
                "reason": status.reason,
                "active": status.active.version if status.active else None,
            }
        )


def _wait(
    cluster: "Cluster", name: str, namespace: str, asked: Change, generation: int, timeout: float
) -> dict[str, Any]:
    """The resource once the goal is reached. Raises CliError where waiting is in vain, or took too long."""
    end = time.monotonic() + timeout
    with console.progress(f"{name}: waiting") as tell:
        while True:
            found = cluster.get(name, namespace)
            now = _progress(asked, parse_status(found.get("status") or {}), generation)
            tell(f"{name}: {now.line}")
            if now.done:
                return found
            if now.failed:
                raise CliError(f"{name}: it did not come about: {now.line}", Exit.REFUSED)
            if time.monotonic() >= end:
                raise CliError(
                    f"{name}: not within --timeout {timeout:g} s; it goes on without this command: {now.line}",
                    Exit.TIMEOUT,
                )
            time.sleep(POLL_SECONDS)


def _progress(asked: Change, status: ModelDeploymentStatus, generation: int) -> Progress:
    if status.observed_generation < generation:
        return Progress(f"the operator has not seen the change yet; {line_of(status)}")
    return asked.goal(status)
