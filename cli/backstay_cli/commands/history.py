"""backstay history."""

from datetime import UTC, datetime

from backstay_contract.status import parse_status

from backstay_cli import console
from backstay_cli.commands.cluster_options import Context, Name, Namespace, cluster_of
from backstay_cli.commands.options import Form
from backstay_cli.console import Output
from backstay_cli.errors import EXIT_HELP
from backstay_cli.resource import revisions


def history(name: Name, namespace: Namespace = None, output: Form = Output.TEXT, context: Context = None) -> None:
    cluster = cluster_of(context)
    found = cluster.get(name, namespace or cluster.namespace)
    status = parse_status(found.get("status") or {})
    if output is Output.JSON:
        console.result_json(list(revisions.as_json(status)))
        return
    if not status.history:
        console.note(f"{name}: no revision has served yet")
        return
    console.results().print(console.table(revisions.COLUMNS, revisions.rows(status, datetime.now(UTC))))


history.__doc__ = f"""List the revisions that served, the newest first: what backstay rollback --to can bring back.

VERIFIED says whether the judge passed it, REASON how its soak ended, NOW what became of it.

Examples:

- `backstay history chat`
- `backstay history chat -o json`

{EXIT_HELP}
"""
