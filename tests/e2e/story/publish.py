"""Pushing a model and asking for it, with the same commands that people type."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.story import objects, settings
from tests.e2e.story.place import DemoError, Place

Json = dict[str, Any]
BACKSTAY = str(Path(sys.executable).with_name("backstay"))


@dataclass(frozen=True)
class Pushed:
    """A model in the object storage."""

    version: str
    uri: str
    digest: str
    """sha256:…"""
    size: int
    """Bytes."""


def push(
    place: Place, folder: Path, version: str, *, run: str, baselines: dict[str, float], model: str = settings.MODEL
) -> Pushed:
    """`backstay push` below the run's own prefix, since a published model is never replaced. Raises DemoError."""
    uri = f"s3://{settings.BUCKET}/{run}/{model}/{version}"
    options = [f"--name={model}", f"--version={version}", "--create-bucket", "--output=json"]
    for metric, value in baselines.items():
        options += [f"--baseline={metric}={value:g}", f"--tolerance={metric}={settings.TOLERANCE:g}"]
    said: Json = json.loads(backstay(place, "push", str(folder), uri, *options))
    return Pushed(version, uri, _prefixed(said["digest"]), sum(file["size"] for file in said["manifest"]["files"]))


def render(place: Place, pushed: Pushed, name: str = settings.RESOURCE) -> Json:
    """`backstay render`: the resource that asks for the model."""
    options = (
        f"--sha256={pushed.digest}",
        f"--name={name}",
        f"--namespace={settings.DEMO}",
        "--replicas=1",
        f"--storage-endpoint={settings.STORAGE}",
        f"--secret={settings.READER}",
    )
    rendered: Json = yaml.safe_load(backstay(place, "render", pushed.uri, *options))
    return rendered


def resource(place: Place, pushed: Pushed, **soak: object) -> Json:
    """The rendered resource with the demo's settings of serving and rollout."""
    rollout = {**settings.ROLLOUT, "soak": {**settings.ROLLOUT["soak"], **soak}}
    return objects.asked(render(place, pushed), serving=settings.SERVING, rollout=rollout)


def _prefixed(digest: str) -> str:
    return digest if digest.startswith("sha256:") else f"sha256:{digest}"


def backstay(place: Place, *arguments: str) -> str:
    """What a command printed, run where the storage and the Services are reached. Raises DemoError."""
    with place.storage() as storage:
        command = storage.wrap([BACKSTAY, *arguments, f"--endpoint={storage.endpoint}"])
        environment = dict(storage.environment)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)
    if done.returncode != 0:
        raise DemoError(f"backstay {arguments[0]}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout
