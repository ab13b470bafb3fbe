"""backstay verify."""

from pathlib import Path
from typing import Annotated

import typer
from backstay_contract.location import is_uri

from backstay_cli import console
from backstay_cli.commands import options
from backstay_cli.console import Output
from backstay_cli.errors import EXIT_HELP, CliError, Exit
from backstay_cli.model.check import Finding, Source, check, in_folder, in_storage


def verify(
    model: Annotated[str, typer.Argument(help="A folder with manifest.json, or s3://BUCKET/PREFIX.")],
    sha256: options.Sha256 = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Storage only: compare sizes and recorded digests, read no weights.")
    ] = False,
    read: Annotated[
        bool, typer.Option("--read", help="Storage only: read also what the storage compared when it took it.")
    ] = False,
    endpoint: options.Endpoint = None,
    region: options.Region = None,
    access_key_file: options.AccessKeyFile = None,
    secret_key_file: options.SecretKeyFile = None,
    output: options.Form = Output.TEXT,
) -> None:
    pinned = options.digest(sha256)
    if is_uri(model):
        access = options.access(endpoint, region, access_key_file, secret_key_file)
        source = in_storage(options.store(access, options.location(model)), quick=quick, read=read)
    else:
        source = in_folder(Path(model))
    with console.bar(f"verifying {model}", source.manifest.size) as advance:
        findings = check(source, pinned, advance)
    _tell(model, source, findings, output)


verify.__doc__ = f"""Check that a model's bytes are those of its manifest, and the manifest the pinned one.

In a folder every byte is read and hashed. In the storage files are not read that were pushed in one request: the
storage compared their SHA-256 before it took them, and says so. --read reads them all the same, and finds what rotted
since. With --quick the digest that the writer recorded is believed for the others too; that finds what is missing or
replaced by a push, not what somebody forged.

{EXIT_HELP}
"""


def _tell(model: str, source: Source, findings: list[Finding], output: Output) -> None:
    if output is Output.JSON:
        console.result_json(
            {
                "model": model,
                "digest": source.digest,
                "name": source.manifest.name,
                "version": source.manifest.version,
                "files": len(source.manifest.files),
                "bytes": source.manifest.size,
                "ok": not findings,
                "findings": [one._asdict() for one in findings],
            }
        )
    elif not findings:
        console.result(
            f"{source.digest}  {len(source.manifest.files)} files, {source.manifest.size} bytes: all as listed"
        )
    for one in findings:
        numbers = f" (expected {one.expected}, found {one.actual})" if one.expected else ""
        console.note(f"{one.path}: {one.problem}{numbers}")
    if findings:
        raise CliError(f"{model}: {len(findings)} of its files are not the manifest's", Exit.MISMATCH)
