"""backstay ls, show and diff: what there is, what it is, and how two differ."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from backstay_contract import digest as digests
from backstay_contract.location import Location, is_uri
from backstay_contract.manifest import Manifest, recorded_perplexity
from rich.table import Table
from rich.text import Text

from backstay_cli import console
from backstay_cli.commands import options
from backstay_cli.console import Output
from backstay_cli.errors import EXIT_HELP, CliError, Exit
from backstay_cli.model.check import Source, in_folder, in_storage
from backstay_cli.model.compare import Difference, differences
from backstay_cli.storage.catalog import Found, catalog

Where = Annotated[str, typer.Argument(help="s3://BUCKET, or s3://BUCKET/PREFIX for what is below it.")]
Model = Annotated[str, typer.Argument(help="A folder with manifest.json, or s3://BUCKET/PREFIX.")]


def ls(
    where: Where,
    endpoint: options.Endpoint = None,
    region: options.Region = None,
    access_key_file: options.AccessKeyFile = None,
    secret_key_file: options.SecretKeyFile = None,
    output: options.Form = Output.TEXT,
) -> None:
    access = options.access(endpoint, region, access_key_file, secret_key_file)
    found = catalog(options.store(access, options.place(where)))
    if output is Output.JSON:
        console.result_json([_json(one) for one in found])
        return
    table = _table("NAME", "VERSION", "DIGEST", "SIZE", "PUSHED", "URI")
    for one in found:
        table.add_row(*(Text(cell) for cell in _cells(one)))
    console.results().print(table, soft_wrap=True)


ls.__doc__ = f"""List the models that lie in a bucket or below a prefix.

What a push that was cut off has left is listed without a name: push again, or let backstay gc take it away.

{EXIT_HELP}
"""


def _cells(one: Found) -> tuple[str, ...]:
    name, version = (one.manifest.name, one.manifest.version) if one.manifest else ("-", "-")
    rest = "cut off" if one.pushed else "no model"
    digest = rest if one.digest is None else "unreadable" if one.problem else digests.short(one.digest)
    return (name, version, digest, size(one.size), f"{one.changed_at:%Y-%m-%d %H:%M}", str(one.location))


def _json(one: Found) -> dict[str, Any]:
    return {
        "uri": str(one.location),
        "name": one.manifest.name if one.manifest else None,
        "version": one.manifest.version if one.manifest else None,
        "digest": one.digest,
        "bytes": one.size,
        "files": len(one.keys),
        "changedAt": one.changed_at.isoformat(),
        "problem": one.problem,
        "pushed": one.pushed,
    }


def size(count: int) -> str:
    """Bytes for people."""
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if count >= 10**power:
            return f"{count / 10**power:.1f} {unit}"
    return f"{count} B"


def show(
    model: Model,
    endpoint: options.Endpoint = None,
    region: options.Region = None,
    access_key_file: options.AccessKeyFile = None,
    secret_key_file: options.SecretKeyFile = None,
    output: options.Form = Output.TEXT,
) -> None:
    source = _source(model, endpoint, region, access_key_file, secret_key_file)
    if output is Output.JSON:
        console.result_json({"digest": source.digest, "manifest": source.manifest.to_json()})
        return
    out = console.results()
    for line in _summary(source.digest, source.manifest):
        out.print(Text(line), soft_wrap=True)


show.__doc__ = f"""Show what a model is: its files, its hardware, and the baselines with how they were measured.

Only the manifest is read. backstay verify looks at the files.

{EXIT_HELP}
"""


def _summary(digest: str, manifest: Manifest) -> list[str]:
    profile = ", ".join(f"{field} {value}" for field, value in manifest.hardware_profile.to_json().items())
    architecture = ", ".join(str(value) for value in manifest.architecture.to_json().values())
    lines = [f"{manifest.name} {manifest.version}  {digest}", f"hardware   {profile}", f"model      {architecture}"]
    for name, one in sorted(manifest.baselines.items()):
        measured = one.measured.to_json()
        how = ", ".join(f"{field} {value}" for field, value in measured.items() if field != "method")
        lines.append(
            f"baseline   {name} {one.value:g} {one.unit}, tolerated × {one.tolerance:g}; "
            f"{measured['method']}{f' ({how})' if how else ''}"
        )
    perplexity = recorded_perplexity(manifest.evaluation)
    if perplexity is not None:
        lines.append(f"evaluation {len(manifest.evaluation)} texts, recorded perplexity {perplexity:.4g}")
    lines.append(f"files      {len(manifest.files)}, {size(manifest.size)}")
    return lines + [f"  {file.sha256}  {size(file.size):>10}  {file.path}" for file in manifest.files]


def diff(
    left: Model,
    right: Model,
    endpoint: options.Endpoint = None,
    region: options.Region = None,
    access_key_file: options.AccessKeyFile = None,
    secret_key_file: options.SecretKeyFile = None,
    output: options.Form = Output.TEXT,
) -> None:
    sources = [_source(model, endpoint, region, access_key_file, secret_key_file) for model in (left, right)]
    found = differences(sources[0].manifest, sources[1].manifest)
    same = sources[0].digest == sources[1].digest
    if output is Output.JSON:
        said = [one._asdict() for one in found]
        console.result_json({"same": same, "digests": [one.digest for one in sources], "differences": said})
    else:
        _tell(found)
    if not same:
        raise CliError(f"{left} and {right} are different models", Exit.MISMATCH)
    console.note(f"the same model: {sources[0].digest}")


diff.__doc__ = f"""Say how two models differ: files, hardware, baselines, evaluation set.

Only the manifests are read: equal digests mean equal bytes. Exit code 4 when they differ.

{EXIT_HELP}
"""


def _tell(found: list[Difference]) -> None:
    out = console.results()
    for one in found:
        for mark, value in (("-", one.left), ("+", one.right)):
            if value is not None:
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                out.print(Text(f"{mark} {one.field}: {text}"), soft_wrap=True)


def _source(
    model: str, endpoint: str | None, region: str | None, access_key_file: Path | None, secret_key_file: Path | None
) -> Source:
    if not is_uri(model):
        return in_folder(Path(model))
    access = options.access(endpoint, region, access_key_file, secret_key_file)
    location: Location = options.location(model)
    return in_storage(options.store(access, location), quick=True)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
