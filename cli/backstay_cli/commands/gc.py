"""backstay gc."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from backstay_cli import console
from backstay_cli.commands import options
from backstay_cli.commands.catalog import Where, size
from backstay_cli.commands.cluster_options import cluster_of
from backstay_cli.console import Output
from backstay_cli.errors import EXIT_HELP, usage
from backstay_cli.resource.references import names_of
from backstay_cli.storage.catalog import catalog
from backstay_cli.storage.collect import Fate, Names, fates, remove
from backstay_cli.storage.store import Store

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def gc(
    where: Where,
    delete: Annotated[bool, typer.Option("--delete", help="Remove it. Left out: only say what would go.")] = False,
    context: Annotated[
        list[str] | None,
        typer.Option("--context", help="Context of the kubeconfig; repeat it for each cluster that uses the bucket."),
    ] = None,
    min_age: Annotated[str, typer.Option("--min-age", help="What is younger stays: 7d, 12h, 30m.")] = "7d",
    keep: Annotated[int, typer.Option("--keep", min=0, help="Newest models of each name that stay in any case.")] = 3,
    endpoint: options.Endpoint = None,
    region: options.Region = None,
    access_key_file: options.AccessKeyFile = None,
    secret_key_file: options.SecretKeyFile = None,
    output: options.Form = Output.TEXT,
) -> None:
    age = duration(min_age)
    access = options.access(endpoint, region, access_key_file, secret_key_file)
    store = options.store(access, options.place(where))
    now = datetime.now(UTC)
    found = catalog(store)
    # Asked after the listing: a resource that was made meanwhile still keeps its model.
    decided = fates(found, _named(context), now, min_age=age, newest=keep)
    uploads = store.abandoned(now - age)
    if delete:
        _delete(store, decided, uploads)
    _tell(decided, len(uploads), deleted=delete, output=output)


gc.__doc__ = f"""Remove models that no ModelDeployment names, now or in its history, in any namespace.

Without --delete nothing is removed. What stays: whatever a resource names by digest or by uri, the newest models of
each name, what is younger than --min-age (a push may be under way), what cannot be read, and what no push wrote. Rests
of pushes that were cut off go too. Name every cluster that uses the bucket with --context: models of a cluster that is
not asked look unused.

{EXIT_HELP}
"""


def duration(text: str) -> timedelta:
    """A time span such as `7d` or `12h`. Raises CliError."""
    match = re.fullmatch(r"(\d{1,6})([dhms])", text)
    if match is None:
        raise usage(f"--min-age {text!r}: write a number with d, h, m or s, for example 7d")
    return timedelta(seconds=int(match[1]) * UNITS[match[2]])


def _named(contexts: list[str] | None) -> Names:
    resources = [one for context in contexts or [""] for one in cluster_of(context or None).get_all(None)]
    return names_of(resources)


def _delete(store: Store, decided: list[Fate], uploads: list[tuple[str, str]]) -> None:
    for fate in decided:
        if fate.keep is None:
            console.note(f"removing {fate.found.location}")
            remove(store, fate.found)
    for key, upload_id in uploads:
        store.abandon(key, upload_id)


def _tell(decided: list[Fate], uploads: int, *, deleted: bool, output: Output) -> None:
    gone = [fate for fate in decided if fate.keep is None]
    if output is Output.JSON:
        entries = [
            {
                "uri": str(fate.found.location),
                "digest": fate.found.digest,
                "bytes": fate.found.size,
                "keep": fate.keep,
                "because": fate.because,
            }
            for fate in decided
        ]
        console.result_json({"deleted": deleted, "unfinishedUploads": uploads, "models": entries})
        return
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("", "SIZE", "URI", "BECAUSE"):
        table.add_column(column, no_wrap=True)
    verb = "removed" if deleted else "would go"
    for fate in decided:
        cells = ("keep" if fate.keep else verb, size(fate.found.size), str(fate.found.location), fate.because)
        table.add_row(*(Text(cell) for cell in cells))
    console.results().print(table, soft_wrap=True)
    total = size(sum(fate.found.size for fate in gone))
    hint = "" if deleted or not (gone or uploads) else "; nothing was removed: add --delete"
    console.note(f"{len(gone)} of {len(decided)} {verb} ({total}), and {uploads} unfinished uploads{hint}")
