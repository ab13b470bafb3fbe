"""backstay retry, promote, abort, rollback, pause and resume: each changes one part of a ModelDeployment's spec."""

import secrets
from typing import Annotated

import typer

from backstay_cli.commands import changing
from backstay_cli.commands.changing import How, Which
from backstay_cli.commands.cluster_options import Context, Name, Namespace, revisions
from backstay_cli.commands.options import Form
from backstay_cli.console import Output
from backstay_cli.errors import EXIT_HELP, usage
from backstay_cli.resource import ask as asks

IN_GIT = "Where the resource is kept in git, set the same field there: the next apply would undo this."


def retry(
    name: Name,
    namespace: Namespace = None,
    wait: changing.Wait = False,
    timeout: changing.Timeout = changing.LONG,
    dry_run: changing.DryRun = False,
    output: Form = Output.TEXT,
    context: Context = None,
) -> None:
    token = secrets.token_hex(8)
    how = How(output=output, dry_run=dry_run, wait=wait, timeout=timeout)
    changing.change(Which(name, namespace, context), how, lambda spec, status: asks.retry(spec, status, token))


retry.__doc__ = f"""Try a rejected digest again, in a new attempt without the old evidence (rollout.retryToken).

Examples:

- `backstay retry chat`
- `backstay retry chat --wait`: until it serves, or is rejected again

{EXIT_HELP}
"""


def promote(
    name: Name,
    attempt: Annotated[
        str | None, typer.Option("--attempt", help="Only if this attempt is the one that waits.")
    ] = None,
    namespace: Namespace = None,
    wait: changing.Wait = False,
    timeout: changing.Timeout = 60.0,
    dry_run: changing.DryRun = False,
    output: Form = Output.TEXT,
    context: Context = None,
) -> None:
    how = How(output=output, dry_run=dry_run, wait=wait, timeout=timeout)
    changing.change(Which(name, namespace, context), how, lambda spec, status: asks.promote(spec, status, attempt))


promote.__doc__ = f"""Let the candidate that waits for a person (rollout.promotion: Manual) be flipped to.

An attempt that is held after its flip is kept by it, unverified; `backstay abort` does the contrary.

Examples:

- `backstay promote chat`
- `backstay promote chat --attempt 3f1c0a9b7d21-4`: only if that attempt still waits

{EXIT_HELP}
"""


def abort(
    name: Name,
    attempt: Annotated[str | None, typer.Option("--attempt", help="Only if this attempt is the open one.")] = None,
    namespace: Namespace = None,
    wait: changing.Wait = False,
    timeout: changing.Timeout = 60.0,
    dry_run: changing.DryRun = False,
    output: Form = Output.TEXT,
    context: Context = None,
) -> None:
    how = How(output=output, dry_run=dry_run, wait=wait, timeout=timeout)
    changing.change(Which(name, namespace, context), how, lambda _, status: asks.abort(status, attempt))


abort.__doc__ = f"""End the open attempt (rollout.abort): its digest is rejected, and in the soak the Service goes back.

The digest is not tried again by itself, only by `backstay retry`.

Examples:

- `backstay abort chat --dry-run`: says what would end
- `backstay abort chat --wait`: until requests go to what serves now

{EXIT_HELP}
"""


def rollback(
    name: Name,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="REVISION|VERSION",
            help="What shall serve, as backstay history lists it; left out: what served before.",
            autocompletion=revisions,
        ),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Serve what the spec asks for again.")] = False,
    namespace: Namespace = None,
    wait: changing.Wait = False,
    timeout: changing.Timeout = changing.LONG,
    dry_run: changing.DryRun = False,
    output: Form = Output.TEXT,
    context: Context = None,
) -> None:
    if clear and to is not None:
        raise usage("--to and --clear: give one of them")
    how = How(output=output, dry_run=dry_run, wait=wait, timeout=timeout)
    changing.change(
        Which(name, namespace, context),
        how,
        lambda spec, status: asks.clear_rollback(spec) if clear else asks.rollback(spec, status, to),
    )


rollback.__doc__ = f"""Serve a revision that served before (rollout.rollbackTo), whatever the spec asks for.

While the previous revision is kept warm, in the soak, the Service is flipped to it at once. An older one is brought
up, checked and flipped to like any other; what serves goes on meanwhile. Nothing is rejected.

Examples:

- `backstay rollback chat`: to what served before
- `backstay rollback chat --to 1.2.0 --wait`: to that version, and until it serves
- `backstay rollback chat --clear`: serve what the spec asks for again

{IN_GIT}

{EXIT_HELP}
"""


def pause(
    name: Name,
    namespace: Namespace = None,
    wait: changing.Wait = False,
    timeout: changing.Timeout = 60.0,
    dry_run: changing.DryRun = False,
    output: Form = Output.TEXT,
    context: Context = None,
) -> None:
    how = How(output=output, dry_run=dry_run, wait=wait, timeout=timeout)
    changing.change(Which(name, namespace, context), how, lambda spec, _: asks.pause(spec))


pause.__doc__ = f"""Let nothing go forward (rollout.paused): no new attempt, no flip to a candidate, no end of a soak.

The way back stays open: a breach or dead pods still send the Service back. Deadlines do not run meanwhile.

Examples:

- `backstay pause chat --wait`: until the operator has seen it
- `backstay resume chat`: go on

{IN_GIT}

{EXIT_HELP}
"""


def resume(
    name: Name,
    namespace: Namespace = None,
    wait: changing.Wait = False,
    timeout: changing.Timeout = 60.0,
    dry_run: changing.DryRun = False,
    output: Form = Output.TEXT,
    context: Context = None,
) -> None:
    how = How(output=output, dry_run=dry_run, wait=wait, timeout=timeout)
    changing.change(Which(name, namespace, context), how, lambda spec, _: asks.resume(spec))


resume.__doc__ = f"""Let a paused rollout go on (rollout.paused).

Examples:

- `backstay resume chat && backstay status chat --watch`

{EXIT_HELP}
"""
