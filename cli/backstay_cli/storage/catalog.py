"""What lies below a place in the storage: models, rests of pushes that were cut off, and other people's objects."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import NamedTuple

from backstay_contract import manifest as manifests
from backstay_contract.location import Location
from backstay_contract.manifest import Manifest, ManifestError
from backstay_contract.names import MANIFEST_FILE

from backstay_cli.storage.store import Listed, Store

LOOKUPS = 8


class Found(NamedTuple):
    """A model below a place, or objects that no manifest lists."""

    location: Location
    keys: tuple[str, ...]
    """Its objects, the manifest's first where there is one."""
    size: int
    """Bytes of its objects."""
    changed_at: datetime
    """When its newest object was written."""
    digest: str | None = None
    """None where there is no manifest."""
    manifest: Manifest | None = None
    problem: str | None = None
    """Why its manifest cannot be read."""
    pushed: bool = True
    """Whether each object carries the mark of a push; others belong to somebody else."""


class _Model(NamedTuple):
    data: bytes
    manifest: Manifest | None
    problem: str | None


def catalog(store: Store) -> list[Found]:
    """Everything below the store's place, by key. Raises CliError."""
    listed = {one.key: one for one in store.listed()}
    homes = sorted(key.removesuffix(f"/{MANIFEST_FILE}") for key in listed if key.endswith(f"/{MANIFEST_FILE}"))
    with ThreadPoolExecutor(LOOKUPS, "manifest") as pool:
        read = pool.map(lambda home: store.at(home).read(MANIFEST_FILE, manifests.MAX_BYTES), homes)
        data = {home: found for home, found in zip(homes, read, strict=True) if found is not None}
        found = sort_out(store.location.bucket, listed, data)
        return list(pool.map(lambda one: one if one.digest else _marked(store, one), found))


def _marked(store: Store, found: Found) -> Found:
    paths = [key.removeprefix(f"{found.location.prefix}/") for key in found.keys]
    stored = [store.at(found.location.prefix).stat(path) for path in paths]
    return found._replace(pushed=all(one is not None and one.sha256 is not None for one in stored))


def sort_out(bucket: str, listed: Mapping[str, Listed], data: Mapping[str, bytes]) -> list[Found]:
    """Which objects are whose, given the bytes of each manifest by its prefix. Pure.

    A model's are those that its manifest lists; what nobody lists belongs to its own folder. A manifest.json that
    another manifest lists is a file of that.
    """
    models: dict[str, _Model] = {}
    owner: dict[str, str] = {}
    for home in sorted(data):
        if f"{home}/{MANIFEST_FILE}" in owner:
            continue
        model = models[home] = _read(data[home])
        paths = [file.path for file in model.manifest.files] if model.manifest else []
        owner |= {f"{home}/{path}": home for path in (MANIFEST_FILE, *paths)}
    owned: dict[tuple[str, bool], list[Listed]] = {}
    for key, one in listed.items():
        home = owner.get(key, key.rpartition("/")[0])
        owned.setdefault((home, key in owner), []).append(one)
    return [
        _found(bucket, home, objects, models[home] if listed_there else None)
        for (home, listed_there), objects in sorted(owned.items())
        if home
    ]


def _read(data: bytes) -> _Model:
    try:
        return _Model(data, manifests.parse(data), None)
    except ManifestError as error:
        return _Model(data, None, str(error))


def _found(bucket: str, home: str, objects: list[Listed], model: _Model | None) -> Found:
    manifest_key = f"{home}/{MANIFEST_FILE}"
    keys = sorted((one.key for one in objects), key=lambda key: (key != manifest_key, key))
    found = Found(
        location=Location(bucket, home),
        keys=tuple(keys),
        size=sum(one.size for one in objects),
        changed_at=max(one.changed_at for one in objects),
    )
    if model is None:
        return found
    digest = manifests.digest_of(model.data)
    return found._replace(digest=digest, manifest=model.manifest, problem=model.problem)
