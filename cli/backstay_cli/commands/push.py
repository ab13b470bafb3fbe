"""backstay push."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from backstay_contract.manifest import EvaluationItem, RecordedBaseline
from backstay_contract.metric import MetricName

from backstay_cli import console
from backstay_cli.commands import convert, options
from backstay_cli.console import Output
from backstay_cli.errors import EXIT_HELP, usage
from backstay_cli.model import qualification
from backstay_cli.model.describe import Description, Qualification, checked_listing, describe
from backstay_cli.model.files import is_gguf
from backstay_cli.storage import push as pushes
from backstay_cli.storage.store import Store


def push(
    model: Annotated[Path, typer.Argument(help="Folder in Hugging Face's form, or a Llama-family GGUF file.")],
    uri: Annotated[str, typer.Argument(help="Where to: s3://BUCKET/PREFIX; one prefix for each version.")],
    name: Annotated[str, typer.Option("--name", help="The model's name.")],
    version: Annotated[str, typer.Option("--version", help="The model's version.")],
    hardware_profile: Annotated[
        str, typer.Option("--hardware-profile", help="gpu=NAME,count=1,minMemoryGiB=70,…, or a file of YAML or JSON.")
    ] = "gpu=none",
    baseline: Annotated[
        list[str] | None,
        typer.Option("--baseline", help="METRIC=VALUE, for example p99LatencyMs=420. Can be repeated."),
    ] = None,
    tolerance: Annotated[
        list[str] | None,
        typer.Option("--tolerance", help="METRIC=FACTOR for a baseline; default 2.0. Can be repeated."),
    ] = None,
    measured: Annotated[
        Path | None, typer.Option("--measured", help="What backstay bench --out wrote; --baseline wins over it.")
    ] = None,
    evaluation: Annotated[
        Path | None, typer.Option("--eval", help="Evaluation set: a JSON object a line with text, nll and tokens.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", help="Glob of files to leave out. Can be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Describe and look, but send nothing.")] = False,
    create_bucket: Annotated[bool, typer.Option("--create-bucket", help="Make the bucket if there is none.")] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Replace files that a push which was cut off has left there.")
    ] = False,
    endpoint: options.Endpoint = None,
    region: options.Region = None,
    access_key_file: options.AccessKeyFile = None,
    secret_key_file: options.SecretKeyFile = None,
    output: options.Form = Output.TEXT,
) -> None:
    location = options.location(uri)
    store = options.store(options.access(endpoint, region, access_key_file, secret_key_file), location)
    qualified = Qualification(
        qualification.hardware_profile(_text_or_file(hardware_profile)),
        _measured(measured) | qualification.baselines(baseline or (), tolerance or ()),
        _evaluation(evaluation),
    )
    began = time.monotonic()
    with _folder(model) as folder:
        description = _described(folder, tuple(exclude or ()), name, version, qualified)
        if create_bucket and not dry_run:
            store.make_bucket()
        plan = pushes.look(store, description)
        if not dry_run:
            with console.bar(f"pushing to {location}", plan.bytes_to_send) as advance:
                pushes.push(store, folder, description, plan, advance, take_over=take_over)
    _tell(store, description, plan, time.monotonic() - began, dry_run=dry_run, output=output)


push.__doc__ = f"""Push a model to object storage and print its digest.

A GGUF file is converted first, as backstay convert gguf does: its weights become float32, in the folder for temporary
files (TMPDIR), which needs room for them.

Files go first, the manifest last: a model whose push was cut off is not there at all, and the next push sends only
what is missing. A file counts as there when size and digest are the ones recorded with its object; whoever can write
to the bucket could forge that, so it only saves time: every pull hashes every byte.

A published model is never replaced: of pushes to one place only those of the same model succeed. Pickles, Git-LFS
pointers and unfinished downloads are refused.

{EXIT_HELP}
"""


@contextmanager
def _folder(model: Path) -> Iterator[Path]:
    """The folder that is pushed. A GGUF file always becomes the same bytes, so a push of it can be taken up, too."""
    if not is_gguf(model):
        yield model
        return
    with tempfile.TemporaryDirectory(prefix="backstay-") as parent:
        convert.to_folder(model, Path(parent) / model.stem)
        yield Path(parent) / model.stem


def _text_or_file(text: str) -> str:
    if "=" in text or text.lstrip().startswith("{"):
        return text
    return _read(Path(text), "--hardware-profile")


def _read(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise usage(f"{option} {path}: cannot be read: {error}") from None


def _measured(path: Path | None) -> dict[MetricName, RecordedBaseline]:
    return {} if path is None else qualification.measured(_read(path, "--measured"), str(path))


def _evaluation(path: Path | None) -> tuple[EvaluationItem, ...]:
    return () if path is None else qualification.evaluation(_read(path, "--eval").splitlines(), str(path))


def _described(
    folder: Path, exclude: tuple[str, ...], name: str, version: str, qualified: Qualification
) -> Description:
    paths = checked_listing(folder, exclude)
    with console.bar(f"hashing {folder}", sum((folder / path).stat().st_size for path in paths)) as advance:
        return describe(folder, paths, name, version, qualified, advance)


def _tell(
    store: Store, description: Description, plan: pushes.Plan, seconds: float, *, dry_run: bool, output: Output
) -> None:
    sent = "would be sent" if dry_run else "sent"
    files = (*plan.send, *plan.foreign)
    there = ", was published before" if plan.published else ""
    console.note(
        f"{store.location}: {len(files)} files ({plan.bytes_to_send} bytes) {sent}, "
        f"{len(plan.keep)} were there{there}; {seconds:.1f} s"
    )
    if output is Output.JSON:
        console.result_json(
            {
                "uri": str(store.location),
                "digest": description.digest,
                "dryRun": dry_run,
                "sent": [file.path for file in files],
                "kept": [file.path for file in plan.keep],
                "bytesSent": plan.bytes_to_send,
                "seconds": round(seconds, 3),
                "manifest": description.manifest.to_json(),
            }
        )
    else:
        console.result(description.digest)
