"""The command line: its commands, and how their errors end."""

import sys
from importlib.metadata import version as installed_version
from typing import Any

import typer
from typer.core import TyperGroup

from backstay_cli.commands import convert
from backstay_cli.commands.ask import abort, pause, promote, resume, retry, rollback
from backstay_cli.commands.bench import bench
from backstay_cli.commands.catalog import diff, ls, show
from backstay_cli.commands.evaluate import evaluate
from backstay_cli.commands.gc import gc
from backstay_cli.commands.history import history
from backstay_cli.commands.judge import judge
from backstay_cli.commands.push import push
from backstay_cli.commands.record import record
from backstay_cli.commands.render import render
from backstay_cli.commands.status import status
from backstay_cli.commands.verify import verify
from backstay_cli.console import notes
from backstay_cli.errors import EXIT_HELP, CliError


class Commands(TyperGroup):
    """Ends a command's CliError as one line and its exit code."""

    def invoke(self, context: Any) -> Any:
        try:
            return super().invoke(context)
        except CliError as error:
            notes().print(f"error: {error}", style="red", markup=False, soft_wrap=True)
            raise typer.Exit(error.code) from None
        except KeyboardInterrupt:
            notes().print("interrupted; the same command goes on where this one stopped", markup=False)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="backstay",
    cls=Commands,
    help="Push models, ask for them, and see what serves and why.",
    epilog=EXIT_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
MODELS = (push, bench, verify, ls, show, diff, gc, render)
RESOURCES = (status, history, retry, promote, abort, rollback, pause, resume)
EVIDENCE = (judge, record)
for command in (*MODELS, *RESOURCES, *EVIDENCE):
    app.command()(command)
app.command("eval")(evaluate)
app.add_typer(convert.app, name="convert")


@app.command()
def version() -> None:
    """Print the version."""
    sys.stdout.write(installed_version("backstay") + "\n")
