"""backstay status."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from backstay_cli import console
from backstay_cli.commands.cluster_options import Context, Namespace, cluster_of
from backstay_cli.errors import EXIT_HELP, usage
from backstay_cli.resource import view

WATCH_SECONDS = 2.0


class Form(StrEnum):
    TEXT = "text"
    WIDE = "wide"
    JSON = "json"


def status(
    name: Annotated[str | None, typer.Argument(help="A ModelDeployment; left out: all of the namespace.")] = None,
    namespace: Namespace = None,
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="Of all namespaces.")] = False,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Show it again and again, until interrupted.")] = False,
    output: Annotated[Form, typer.Option("-o", "--output", help="Form of the result on standard output.")] = Form.TEXT,
    context: Context = None,
) -> None:
    if name is not None and all_namespaces:
        raise usage("NAME and --all-namespaces: give one of them")
    cluster = cluster_of(context)
    where = namespace or cluster.namespace

    def read() -> list[dict[str, Any]]:
        return [cluster.get(name, where)] if name else cluster.get_all(None if all_namespaces else where)

    if output is Form.JSON:
        _json(read, one=name is not None, watch=watch)
    else:
        _text(read, one=name is not None, watch=watch, wide=output is Form.WIDE, namespaced=all_namespaces)


status.__doc__ = f"""Show what serves, what is tried, and the evidence it is judged by.

For each metric: the verdict, the limit, n requests of which k were beyond it, the estimate k/n with an interval for
reading, and how far the e-value is from deciding.

{EXIT_HELP}
"""


def _json(read: Callable[[], list[dict[str, Any]]], *, one: bool, watch: bool) -> None:
    while True:
        found = read()
        console.result_json(found[0] if one else {"items": found})
        if not watch:
            return
        time.sleep(WATCH_SECONDS)


def _text(read: Callable[[], list[dict[str, Any]]], *, one: bool, watch: bool, wide: bool, namespaced: bool) -> None:
    def shown() -> Table | Text:
        found, now = read(), datetime.now(UTC)
        if one:
            return Text("\n".join(view.detail(found[0], now)))
        return _table(found, now, wide=wide, namespaced=namespaced)

    out = console.results()
    if not watch:
        out.print(shown(), soft_wrap=True)
    elif not out.is_terminal:
        while True:
            out.print(shown(), soft_wrap=True)
            time.sleep(WATCH_SECONDS)
    else:
        with Live(shown(), console=out, auto_refresh=False) as live:
            while True:
                time.sleep(WATCH_SECONDS)
                live.update(shown(), refresh=True)


def _table(resources: list[dict[str, Any]], now: datetime, *, wide: bool, namespaced: bool) -> Table:
    columns = (*(("NAMESPACE",) if namespaced else ()), *(view.WIDE if wide else view.COLUMNS))
    return console.table(columns, (view.row(one, now, wide=wide, namespaced=namespaced) for one in resources))
