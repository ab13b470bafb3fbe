"""Options of the commands that speak to a cluster."""

from typing import Annotated

import typer

Name = Annotated[str, typer.Argument(help="The ModelDeployment's name.")]
Namespace = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Namespace; left out: the kubeconfig context's.")
]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")]
