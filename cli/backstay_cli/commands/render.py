"""backstay render."""

from typing import Annotated

import typer

from backstay_cli import console
from backstay_cli.commands import options
from backstay_cli.console import Output
from backstay_cli.errors import EXIT_HELP, CliError, Exit
from backstay_cli.model.check import in_storage
from backstay_cli.resource import render as renders


def render(
    uri: Annotated[str, typer.Argument(help="A pushed model: s3://BUCKET/PREFIX.")],
    sha256: options.PinnedSha256,
    name: Annotated[str, typer.Option("--name", help="The resource's name.")],
    namespace: Annotated[str | None, typer.Option("-n", "--namespace", help="The resource's namespace.")] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", help="Pods of a colour; left out: 1.")] = None,
    storage_endpoint: Annotated[
        str | None,
        typer.Option("--storage-endpoint", help="Endpoint as pods reach it, if it is not --endpoint."),
    ] = None,
    secret: Annotated[
        str | None, typer.Option("--secret", help="Secret with accessKey and secretKey, beside the resource.")
    ] = None,
    endpoint: options.Endpoint = None,
    region: options.Region = None,
    access_key_file: options.AccessKeyFile = None,
    secret_key_file: options.SecretKeyFile = None,
    output: options.Form = Output.TEXT,
) -> None:
    pinned = options.digest(sha256)
    access = options.access(endpoint, region, access_key_file, secret_key_file)
    location = options.location(uri)
    source = in_storage(options.store(access, location), quick=True)
    if source.digest != pinned:
        raise CliError(f"{uri}: the manifest there is {source.digest}, not the pinned {pinned}", Exit.MISMATCH)
    document = renders.resource(
        source.manifest,
        source.digest,
        location,
        name=name,
        namespace=namespace,
        replicas=replicas,
        endpoint=storage_endpoint or access.endpoint,
        region=region,
        secret=secret,
    )
    if output is Output.JSON:
        console.result_json(document)
    else:
        console.result(renders.to_yaml(document))


render.__doc__ = f"""Print a ModelDeployment that asks for a pushed model, out of its manifest.

Pipe it to kubectl apply -f -. It names the digest that you give and the hardware that the model was qualified on. The
baselines are not in it: pods read them from the manifest. backstay show prints them, and spec.baselines overrides them.

{EXIT_HELP}
"""
