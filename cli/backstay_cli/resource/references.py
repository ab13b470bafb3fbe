"""Which models the resources of a cluster name, now or in their history. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from backstay_contract import digest as digests
from backstay_contract import location as locations
from backstay_contract.location import Location

from backstay_cli.storage.collect import Names


def names_of(resources: Iterable[Mapping[str, Any]]) -> Names:
    """Every digest and every place that stands anywhere in the resources.

    The whole JSON is searched, not single fields: a later version may name models elsewhere, and a model too many that
    is kept is better than one too few.
    """
    found: dict[str, str] = {}
    places: dict[Location, str] = {}
    for resource in resources:
        metadata = resource["metadata"]
        who = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
        for text in _texts({part: resource.get(part) for part in ("spec", "status")}):
            if (digest := _digest(text)) is not None:
                found.setdefault(digest, who)
            if (place := _place(text)) is not None:
                places.setdefault(place, who)
    return Names(found, places)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def _digest(text: str) -> str | None:
    try:
        return digests.normalise(text)
    except ValueError:
        return None


def _place(text: str) -> Location | None:
    try:
        return locations.parse(text)
    except ValueError:
        return None
