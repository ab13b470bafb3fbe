"""backstay retry and promote: each changes one part of a ModelDeployment's spec."""

import secrets
from collections.abc import Callable
from typing import Annotated, Any

import typer
from backstay_contract.resource import ModelDeploymentSpec, parse_spec
from backstay_contract.status import ModelDeploymentStatus, parse_status

from backstay_cli import console
from backstay_cli.commands.cluster_options import Context, Name, Namespace, cluster_of
from backstay_cli.errors import EXIT_HELP
from backstay_cli.resource import ask as asks

Ask = Callable[[ModelDeploymentSpec, ModelDeploymentStatus], dict[str, Any]]


def retry(name: Name, namespace: Namespace = None, context: Context = None) -> None:
    token = secrets.token_hex(8)
    _change(name, namespace, context, lambda spec, status: asks.retry(spec, status, token))
    console.note(f"{name}: the rejected digest is tried again in a new attempt (rollout.retryToken {token})")


retry.__doc__ = f"""Try a rejected digest again, in a new attempt without the old evidence.

{EXIT_HELP}
"""


def promote(
    name: Name,
    attempt: Annotated[
        str | None, typer.Option("--attempt", help="Only if this attempt is the one that waits.")
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    _change(name, namespace, context, lambda spec, status: asks.promote(spec, status, attempt))
    console.note(f"{name}: the candidate may be flipped to")


promote.__doc__ = f"""Let the candidate that waits for a person (rollout.promotion: Manual) be flipped to.

{EXIT_HELP}
"""


def _change(name: str, namespace: str | None, context: str | None, ask: Ask) -> None:
    cluster = cluster_of(context)
    where = namespace or cluster.namespace
    found = cluster.get(name, where)
    patch = ask(parse_spec(found["spec"]), parse_status(found.get("status") or {}))
    cluster.patch_spec(name, where, patch, found["metadata"]["resourceVersion"])
