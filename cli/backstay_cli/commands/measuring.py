"""What bench and eval share: the model that is measured, where it answers, and what becomes of the result."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from backstay_contract.location import is_uri
from backstay_contract.manifest import Manifest
from backstay_contract.measurement import content_of
from backstay_contract.names import MANIFEST_FILE

from backstay_cli import console
from backstay_cli.bench import local
from backstay_cli.bench.target import Identity, Target
from backstay_cli.commands import options
from backstay_cli.errors import CliError, Exit, usage
from backstay_cli.model.check import in_folder, in_storage
from backstay_cli.model.describe import checked_listing
from backstay_cli.model.hashing import hash_files
from backstay_cli.storage.access import Access
from backstay_cli.storage.requalify import requalify
from backstay_cli.storage.store import Store

Model = Annotated[str, typer.Argument(help="The model: its folder, or s3://BUCKET/PREFIX of a pushed one.")]
Url = Annotated[
    str | None, typer.Option("--url", help="Where it answers, such as http://chat. Left out: it is served here.")
]
To = Annotated[
    str | None, typer.Option("--to", help="Publish the model with the result here; files are copied in the storage.")
]
Out = Annotated[Path | None, typer.Option("--out", help="Write the result to this file, for backstay push.")]


class Measured(NamedTuple):
    """The model that is measured."""

    name: str
    """As it was given."""
    content: str
    """Digest of its files."""
    manifest: Manifest | None = None
    digest: str | None = None
    """None for a folder that has no manifest yet."""
    access: Access | None = None
    store: Store | None = None
    """Where a pushed model is."""


def measured(
    model: str, endpoint: str | None, region: str | None, access_key_file: Path | None, secret_key_file: Path | None
) -> Measured:
    """The model of a folder or a uri. Raises CliError."""
    if is_uri(model):
        access = options.access(endpoint, region, access_key_file, secret_key_file)
        store = options.store(access, options.location(model))
        source = in_storage(store, quick=True)
        return Measured(model, source.manifest.content, source.manifest, source.digest, access, store)
    folder = Path(model)
    if (folder / MANIFEST_FILE).exists():
        source = in_folder(folder)
        return Measured(model, source.manifest.content, source.manifest, source.digest)
    paths = checked_listing(folder, ())
    with console.bar(f"hashing {folder}", sum((folder / path).stat().st_size for path in paths)) as advance:
        return Measured(model, content_of(hash_files(folder, paths, advance)))


@contextmanager
def serving(given: Measured, url: str | None) -> Iterator[tuple[Target, Identity]]:
    """The model where it answers. Raises CliError where another model does."""
    if url is None and is_uri(given.name):
        raise usage("--url: give it for a pushed model; only a folder can be served here")
    if url is None:
        console.note(f"serving {given.name} on this machine")
        with local.runtime(Path(given.name)) as here:
            yield (target := Target(here)), target.identity()
        return
    if given.digest is None:
        raise usage("--url: what answers there cannot be compared with a folder without a manifest; push it first")
    target = Target(url)
    who = target.identity()
    if who.digest != given.digest:
        said = f"{url} serves {who.digest}, not {given.digest}: its numbers would be another model's"
        raise CliError(said, Exit.MISMATCH)
    yield target, who


def check_to(given: Measured, to: str | None) -> None:
    """Before anything is measured for nothing: whether the result could be published. Raises CliError."""
    if to is not None:
        options.location(to)
        if given.store is None:
            raise usage("--to: only a pushed model can be published anew; give --out and backstay push the folder")


def write(out: Path | None, text: str) -> None:
    """Writes a result's file, if one is asked for. Raises CliError."""
    if out is None:
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise usage(f"--out {out}: cannot be written: {error.strerror}") from None
    console.note(f"written to {out}")


def publish(given: Measured, to: str | None, **changes: Any) -> str | None:
    """Publishes the model with a changed manifest, if that is asked for: the new digest. Raises CliError."""
    if to is None or given.manifest is None or given.store is None or given.access is None:
        return None
    digest = requalify(given.store, options.store(given.access, options.location(to)), given.manifest.with_(**changes))
    console.note(f"published at {to}")
    return digest
