"""Pushes a model: its files first, each only if it is not there yet, then the manifest, whose arrival is the commit."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from backstay_contract import digest as digests
from backstay_contract import manifest as manifests
from backstay_contract.manifest import ModelFile
from backstay_contract.names import MANIFEST_FILE

from backstay_cli.errors import refused
from backstay_cli.model.describe import Description
from backstay_cli.storage.multipart import Advance
from backstay_cli.storage.store import Store, Stored
from backstay_cli.storage.upload import upload

LOOKUPS = 8


class Plan(NamedTuple):
    """What a push does."""

    send: tuple[ModelFile, ...]
    keep: tuple[ModelFile, ...]
    """Objects whose size and recorded digest are the file's."""
    foreign: tuple[ModelFile, ...]
    """Files in whose places are other bytes, from a push that was cut off or of another model."""
    published: bool
    """The same manifest is there already."""

    @property
    def bytes_to_send(self) -> int:
        return sum(file.size for file in (*self.send, *self.foreign))


def make_plan(files: Iterable[ModelFile], stored: Iterable[Stored | None], published: bool) -> Plan:
    """Which files are sent, given what the storage has of each. Pure."""
    send: list[ModelFile] = []
    keep: list[ModelFile] = []
    foreign: list[ModelFile] = []
    for file, there in zip(files, stored, strict=True):
        if there is None:
            send.append(file)
        elif (there.size, there.sha256) == (file.size, digests.hex_of(file.sha256)):
            keep.append(file)
        else:
            foreign.append(file)
    return Plan(tuple(send), tuple(keep), tuple(foreign), published)


def look(store: Store, description: Description) -> Plan:
    """The plan for a model at the store's uri. Raises CliError when another model is there."""
    published = _published(store, description)
    with ThreadPoolExecutor(LOOKUPS, "stat") as pool:
        stored = list(pool.map(lambda file: store.stat(file.path), description.manifest.files))
    return make_plan(description.manifest.files, stored, published)


def push(
    store: Store, folder: Path, description: Description, plan: Plan, advance: Advance, *, take_over: bool = False
) -> None:
    """Carries out a plan; `take_over` replaces other bytes. Raises CliError; what was sent is kept for the next push.

    Every write but those of a taken-over push succeeds only where nothing is: pushes at the same time cannot spoil
    each other, and a published model cannot be spoilt by a push at all.
    """
    if plan.foreign and not take_over:
        raise refused(
            f"{store.location}: {plan.foreign[0].path} is there with other bytes, from another push; push under a "
            "prefix of its own, or replace what a push that was cut off has left with --take-over"
        )
    for file in (*plan.send, *plan.foreign):
        sha256 = digests.hex_of(file.sha256)
        upload(store, folder / file.path, file.path, file.size, sha256, advance, take_over=file in plan.foreign)
    if plan.published:
        return
    # Everything the manifest names is there before the manifest is, whoever else wrote meanwhile.
    now = look(store, description)
    for file in (*now.send, *now.foreign):
        raise refused(f"{store.location}: {file.path} was changed by somebody else meanwhile; push again")
    if not store.put_new(MANIFEST_FILE, description.data):
        _published(store, description)


def _published(store: Store, description: Description) -> bool:
    """Whether this very manifest is there. A published model is never replaced: others may have pinned its digest."""
    data = store.read(MANIFEST_FILE, manifests.MAX_BYTES)
    if data is None:
        return False
    there = manifests.digest_of(data)
    if there != description.digest:
        raise refused(
            f"{store.location} holds another model already ({there}, this one is {description.digest}); "
            "a published model is never replaced: push under a prefix of its own, such as NAME/VERSION"
        )
    return True
