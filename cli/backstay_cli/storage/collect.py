"""Which models nothing needs any more, and taking them away."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from backstay_contract.location import Location

from backstay_cli.storage.catalog import Found
from backstay_cli.storage.store import Store


class Keep(StrEnum):
    """Why something stays."""

    NAMED = "named"
    YOUNG = "young"
    NEWEST = "newest"
    UNREADABLE = "unreadable"
    FOREIGN = "foreign"


class Names(NamedTuple):
    """What resources and their histories name."""

    digests: Mapping[str, str]
    """Digest -> who names it."""
    locations: Mapping[Location, str]
    """Place -> who names it."""


class Fate(NamedTuple):
    """What becomes of something in the storage."""

    found: Found
    keep: Keep | None
    """None: it goes."""
    because: str


def fates(catalog: Iterable[Found], names: Names, now: datetime, *, min_age: timedelta, newest: int) -> list[Fate]:
    """What stays and what goes, in the catalog's order. Pure.

    A place that is named stays even when another model lies there by now: a pod would say what is wrong with it.
    """
    found = list(catalog)
    kept = _newest(found, newest)
    return [_fate(one, names, now, min_age, one.location in kept) for one in found]


def _fate(one: Found, names: Names, now: datetime, min_age: timedelta, newest: bool) -> Fate:
    who = names.digests.get(one.digest or "") or names.locations.get(one.location)
    if who is not None:
        return Fate(one, Keep.NAMED, f"named by {who}")
    if not one.pushed:
        return Fate(one, Keep.FOREIGN, "no push wrote it")
    if now - one.changed_at < min_age:
        return Fate(one, Keep.YOUNG, "younger than --min-age")
    if one.problem is not None:
        return Fate(one, Keep.UNREADABLE, f"{one.problem}; look at it and remove it by hand")
    if newest:
        return Fate(one, Keep.NEWEST, "among the newest of its name (--keep)")
    return Fate(one, None, "no resource names it" if one.digest else "a push that was cut off left it")


def _newest(found: Iterable[Found], count: int) -> set[Location]:
    by_name: dict[str, list[Found]] = {}
    for one in found:
        if one.manifest is not None:
            by_name.setdefault(one.manifest.name, []).append(one)
    return {
        one.location
        for models in by_name.values()
        for one in sorted(models, key=lambda model: model.changed_at, reverse=True)[:count]
    }


def remove(store: Store, found: Found) -> None:
    """Takes it away, its manifest first: a removal that is cut off leaves no model, and the next one goes on."""
    for key in found.keys:
        store.remove(key)
