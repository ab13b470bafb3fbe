"""backstay eval."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from backstay_contract.manifest import EvaluationItem, Manifest, recorded_perplexity

from backstay_cli import console
from backstay_cli.commands import measuring, options
from backstay_cli.commands.measuring import Model, Out, To, Url
from backstay_cli.console import Output
from backstay_cli.errors import EXIT_HELP, usage


def evaluate(
    model: Model,
    url: Url = None,
    texts: Annotated[
        Path | None, typer.Option("--texts", help="A text a line; left out: the manifest's evaluation set.")
    ] = None,
    to: To = None,
    out: Out = None,
    endpoint: options.Endpoint = None,
    region: options.Region = None,
    access_key_file: options.AccessKeyFile = None,
    secret_key_file: options.SecretKeyFile = None,
    output: options.Form = Output.TEXT,
) -> None:
    given = measuring.measured(model, endpoint, region, access_key_file, secret_key_file)
    measuring.check_to(given, to)
    wanted = _texts(texts, given.manifest)
    with measuring.serving(given, url) as (target, who):
        items = []
        for text in wanted:
            nll, tokens = target.loss(who.model, text)
            items.append(EvaluationItem(text=text, nll=float(f"{nll:.7g}"), tokens=tokens))
            console.note(f"{len(items)} of {len(wanted)} texts")
    measuring.write(out, "".join(json.dumps(item.to_json(), ensure_ascii=False) + "\n" for item in items))
    published = measuring.publish(given, to, evaluation=tuple(items))
    found = recorded_perplexity(items)
    before = given.manifest.recorded_perplexity if given.manifest and texts is None else None
    tokens = sum(item.tokens for item in items)
    if output is Output.JSON:
        said = {"perplexity": found, "recordedPerplexity": before, "texts": len(items), "tokens": tokens}
        console.result_json(said | {"items": [item.to_json() for item in items], "digest": published})
        return
    recorded = "" if before is None else f", {before:.5g} was recorded"
    console.result(f"perplexity {found:.5g} on {len(items)} texts of {tokens} predicted tokens{recorded}")
    if published:
        console.result(published)


evaluate.__doc__ = f"""Compute a model's perplexity on its evaluation set, and record it.

The loss of each text is what the server says of the prompt's tokens. It is written with --out for backstay push --eval,
or published with --to.

{EXIT_HELP}
"""


def _texts(file: Path | None, manifest: Manifest | None) -> Sequence[str]:
    if file is not None:
        try:
            found = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, ValueError) as error:
            raise usage(f"--texts {file}: cannot be read: {error}") from None
    else:
        found = [item.text for item in manifest.evaluation] if manifest else []
    if not found:
        raise usage("--texts: the model has no evaluation set; give a file with a text a line")
    return found
