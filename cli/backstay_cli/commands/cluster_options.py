"""Options of the commands that speak to a cluster."""

from typing import TYPE_CHECKING, Annotated

import typer
from backstay_contract.status import parse_status

from backstay_cli.errors import CliError

if TYPE_CHECKING:
    from backstay_cli.resource.cluster import Cluster


def names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of ModelDeployments, for the shell's completion; none where the cluster cannot be asked."""
    try:
        cluster = cluster_of(context.params.get("context"))
        found = cluster.get_all(context.params.get("namespace") or cluster.namespace)
    except CliError:
        return []
    return [one["metadata"]["name"] for one in found if one["metadata"]["name"].startswith(incomplete)]


def revisions(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Revisions that served, each with its version, for the shell's completion."""
    try:
        cluster = cluster_of(context.params.get("context"))
        found = cluster.get(context.params.get("name") or "", context.params.get("namespace") or cluster.namespace)
    except CliError:
        return []
    served = parse_status(found.get("status") or {}).history
    return [(one.revision, one.version) for one in reversed(served) if one.revision.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="The ModelDeployment's name.", autocompletion=names)]
Namespace = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Namespace; left out: the kubeconfig context's.")
]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")]


def cluster_of(context: str | None) -> "Cluster":
    """The cluster of the kubeconfig's context."""
    # The Kubernetes client takes as long to import as all the rest, and most commands need none.
    from backstay_cli.resource.cluster import Cluster  # noqa: PLC0415

    return Cluster(context)
