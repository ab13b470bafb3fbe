"""Options of the commands that speak to a cluster."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from backstay_cli.resource.cluster import Cluster

Name = Annotated[str, typer.Argument(help="The ModelDeployment's name.")]
Namespace = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Namespace; left out: the kubeconfig context's.")
]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")]


def cluster_of(context: str | None) -> "Cluster":
    """The cluster of the kubeconfig's context."""
    # The Kubernetes client takes as long to import as all the rest, and most commands need none.
    from backstay_cli.resource.cluster import Cluster  # noqa: PLC0415

    return Cluster(context)
