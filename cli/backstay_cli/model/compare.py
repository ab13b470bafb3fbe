"""How two models differ, as their manifests say. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from backstay_contract.manifest import Manifest

LONG = ("files", "evaluation")
"""Parts that are compared entry by entry."""


class Difference(NamedTuple):
    """One thing that is not the same: its place in the manifest and both values, None where there is none."""

    field: str
    left: Any
    right: Any


def differences(left: Manifest, right: Manifest) -> list[Difference]:
    """Everything in which two manifests differ, files by path and texts of the evaluation set by position."""
    before, after = left.to_json(), right.to_json()
    found = list(_walk("", _rest(before), _rest(after)))
    found += _walk("files", _files(left), _files(right))
    return found + list(_walk("evaluation", _numbered(before), _numbered(after)))


def _rest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in manifest.items() if field not in LONG}


def _files(manifest: Manifest) -> dict[str, str]:
    return {file.path: f"{file.sha256} {file.size} bytes" for file in manifest.files}


def _numbered(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {str(number): item for number, item in enumerate(manifest.get("evaluation") or (), start=1)}


def _walk(place: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[Difference]:
    for field in sorted(left.keys() | right.keys()):
        before, after = left.get(field), right.get(field)
        where = f"{place}.{field}" if place else field
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _walk(where, before, after)
        elif before != after:
            yield Difference(where, before, after)
