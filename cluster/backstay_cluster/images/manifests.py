"""Addons' manifests: YAML with placeholders for what is known only when it is applied.

`@@image.NAME@@` becomes the name of that image's present content, `@@secret.NAME@@` a random text that is made once
per machine and kept outside the project."""

import json
import os
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from backstay_cluster import locks
from backstay_cluster.cluster import cache_root
from backstay_cluster.errors import ClusterError
from backstay_cluster.images import recipes

PLACEHOLDER = re.compile(r"@@([a-z]+)\.([a-z0-9-]+)@@")
FOLDER = Path(__file__).resolve().parents[2] / "manifests"
"""cluster/manifests: coredns.yaml, and below addons/ what the demo needs."""
_SECRET_BYTES = 20

Source = Callable[[str], str]


def fill(template: str, sources: Mapping[str, Source]) -> str:
    """The text with every placeholder replaced; ClusterError naming one that has no source."""

    def value(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if kind not in sources:
            raise ClusterError(f"placeholder {match.group()}: no such kind; there are {', '.join(sorted(sources))}")
        return sources[kind](name)

    return PLACEHOLDER.sub(value, template)


def render_manifests(folder: Path, *, images: Mapping[str, str] | None = None) -> str:
    """All *.yaml of the folder (or the one file) as one YAML stream, ready for `kubectl apply`. `images` names
    images to use instead of this project's, for a cluster that pulls from a registry."""
    others = images or {}
    files = sorted(folder.glob("*.yaml")) if folder.is_dir() else [folder]
    kept = Secrets(cache_root() / "addons" / "secrets.json")
    sources: dict[str, Source] = {
        "image": lambda name: others.get(name) or recipes.recipe(name).target().reference,
        "secret": kept.value,
    }
    return "---\n".join(fill(file.read_text(), sources) for file in files)


class Secrets:
    """Random texts by name, in a file that only its owner can read. The same name gives the same text again, so that
    applying twice changes nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def value(self, name: str) -> str:
        """The text of that name, 40 hex digits; made when it is asked for the first time."""
        with locks.held(self._path.with_suffix(".lock")):
            known = self._read()
            if name not in known:
                known[name] = secrets.token_hex(_SECRET_BYTES)
                self._write(known)
            return known[name]

    def _read(self) -> dict[str, str]:
        try:
            document = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        return {str(name): str(text) for name, text in document.items()}

    def _write(self, known: Mapping[str, str]) -> None:
        partial = self._path.with_suffix(".part")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(known, file)
        partial.rename(self._path)
