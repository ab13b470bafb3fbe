"""Options that several commands share."""

import os
from pathlib import Path
from typing import Annotated

import typer
from backstay_contract import digest as digests
from backstay_contract import location as locations
from backstay_contract.location import Location
from backstay_contract.names import Env

from backstay_cli.console import Output
from backstay_cli.errors import usage
from backstay_cli.storage.access import Access, read_access
from backstay_cli.storage.store import Store

Endpoint = Annotated[
    str | None,
    typer.Option("--endpoint", help=f"http(s)://HOST[:PORT]. Else {Env.STORAGE_ENDPOINT}."),
]
Region = Annotated[str | None, typer.Option("--region", help=f"Else {Env.STORAGE_REGION}, else us-east-1.")]
AccessKeyFile = Annotated[
    Path | None, typer.Option("--access-key-file", help="File with the access key. Else BACKSTAY_ACCESS_KEY.")
]
SecretKeyFile = Annotated[
    Path | None, typer.Option("--secret-key-file", help="File with the secret key. Else BACKSTAY_SECRET_KEY.")
]
Sha256 = Annotated[str | None, typer.Option("--sha256", help="Digest that the manifest must have.")]
PinnedSha256 = Annotated[str, typer.Option("--sha256", help="Digest that backstay push printed.")]
Form = Annotated[Output, typer.Option("-o", "--output", help="Form of the result on standard output.")]


def access(
    endpoint: str | None, region: str | None, access_key_file: Path | None, secret_key_file: Path | None
) -> Access:
    """The storage access of these options and the environment."""
    return read_access(
        os.environ,
        endpoint=endpoint,
        region=region,
        access_key_file=access_key_file,
        secret_key_file=secret_key_file,
    )


def digest(text: str | None) -> str | None:
    """A digest option's value as `sha256:<hex>`."""
    try:
        return None if text is None else digests.normalise(text)
    except ValueError as error:
        raise usage(f"--sha256: {error}") from None


def location(uri: str) -> Location:
    """The location that an argument names."""
    try:
        return locations.parse(uri)
    except ValueError as error:
        raise usage(f"uri {error}") from None


def place(uri: str) -> Location:
    """The same for a place that models lie below: it may also be a whole bucket, with an empty prefix."""
    bucket = uri.removesuffix("/")
    if bucket.count("/") != 2:
        return location(uri)
    return location(f"{bucket}/x")._replace(prefix="")


def store(found: Access, where: Location) -> Store:
    """The objects at a location."""
    return Store(found.client(), where, found.endpoint)
