"""What the watches said, for passes at rest.

A pass over something that rests asks the API server nothing: it reads here. What is here may be late, so nothing is
ever written because of it: a pass that wants to write is done again on what the API server has now.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

from backstay_contract import names
from backstay_contract.names import Label

from backstay_operator.client import Client
from backstay_operator.kinds import MODEL_DEPLOYMENT, Kind
from backstay_operator.observe.children import SERVICE_NAME
from backstay_operator.queue import Key

Json = dict[str, Any]
Name = tuple[Kind, str, str]
"""Kind, namespace, name."""
CHILD_LABELS = {Label.MANAGED_BY: names.MANAGED_BY}
"""What all children bear."""


class _Known(NamedTuple):
    version: int
    body: bytes
    """Compact JSON: as Python objects it would take several times the memory."""
    of: Key | None


class Store:
    """Objects by kind, namespace and name, each in the latest state that was seen."""

    def __init__(self) -> None:
        self._objects: dict[Name, _Known] = {}
        self._of: dict[Key, set[Name]] = {}
        self._gone: dict[Name, int] = {}
        """Versions at which objects went: an older list must not bring them back."""
        self.listing: defaultdict[Kind, asyncio.Lock] = defaultdict(asyncio.Lock)
        """One list of a kind at a time: the sweep of a younger one forgets what an older one must still know."""

    def put(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        """The object as it is now; False where that, or a later state of it, was known."""
        metadata = body["metadata"]
        name, version = (kind, metadata["namespace"], metadata["name"]), int(metadata["resourceVersion"])
        known = self._objects.get(name)
        if version <= max(known.version if known else 0, self._gone.get(name, 0)):
            return False
        kept = {key: value for key, value in metadata.items() if key != "managedFields"}
        slim = {"apiVersion": kind.api_version, "kind": kind.name, **body, "metadata": kept}
        self._forget(name)
        key = resource_of(body)
        self._objects[name] = _Known(version, json.dumps(slim, separators=(",", ":")).encode(), key)
        if key is not None:
            self._of.setdefault(key, set()).add(name)
        return True

    def drop(self, kind: Kind, body: Mapping[str, Any]) -> None:
        """The object is gone."""
        metadata = body["metadata"]
        name = (kind, metadata["namespace"], metadata["name"])
        self._gone[name] = int(metadata["resourceVersion"])
        self._forget(name)

    def sweep(self, kind: Kind, namespace: str | None, there: Set[tuple[str, str]], version: int) -> set[Key]:
        """Forgets what a list as of that version did not hold; gives the resources that something was forgotten of."""
        lost = set[Key]()
        for name, known in list(self._objects.items()):
            listed = name[0] == kind and namespace in (None, name[1])
            if listed and name[1:] not in there and known.version <= version:
                lost.add(known.of or Key(*name[1:]))
                self._forget(name)
        listed_since = {
            name
            for name, at in self._gone.items()
            if name[0] == kind and namespace in (None, name[1]) and at <= version
        }
        for name in listed_since:
            del self._gone[name]
        return lost

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """The object as it was last."""
        known = self._objects.get((kind, namespace, name))
        return None if known is None else json.loads(known.body)

    def children(self, kind: Kind, key: Key) -> list[Json]:
        """The objects of that kind that carry the resource's label."""
        return [json.loads(self._objects[name].body) for name in sorted(self._of.get(key, ())) if name[0] == kind]

    def __len__(self) -> int:
        return len(self._objects)

    def _forget(self, name: Name) -> None:
        known = self._objects.pop(name, None)
        if known is None or known.of is None:
            return
        self._of[known.of].discard(name)
        if not self._of[known.of]:
            del self._of[known.of]


def resource_of(body: Mapping[str, Any]) -> Key | None:
    """The resource whose child the object is, by its labels."""
    name = (body["metadata"].get("labels") or {}).get(Label.RESOURCE)
    return Key(body["metadata"]["namespace"], name) if name else None


class BeyondStoreError(Exception):
    """A pass on what the watches said wants to write, or to know more."""


class StoreClient(Client):
    """The client of a pass at rest: it reads from the store, and asks the API server for nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._on_write = None
        self._leave = None

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return self._store.get(kind, namespace, name)

    async def list_all(self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None = None) -> list[Json]:
        wanted = labels or {}
        name = wanted.get(Label.RESOURCE) or wanted.get(SERVICE_NAME)
        if namespace is None or name is None:
            raise BeyondStoreError(f"list {kind.name}")
        found = self._store.children(kind, Key(namespace, name))
        return [one for one in found if wanted.items() <= (one["metadata"].get("labels") or {}).items()]

    async def _call(self, method: str, path: str, **_: Any) -> bytes:
        raise BeyondStoreError(f"{method} {path}")


async def refresh(client: Client, store: Store, kinds: Iterable[Kind], namespaces: tuple[str, ...]) -> set[Key]:
    """Lists everything anew; gives the resources of which something was not known, by whatever was missed."""
    changed = set[Key]()
    for kind in kinds:
        for namespace in namespaces or (None,):
            changed |= (await refresh_kind(client, store, kind, namespace))[0]
    return changed


async def refresh_kind(client: Client, store: Store, kind: Kind, namespace: str | None) -> tuple[set[Key], int]:
    """The same of one kind in one namespace (None: the cluster), with the version that the list is of."""
    changed, there, as_of = set[Key](), set[tuple[str, str]](), 0
    labels = {} if kind == MODEL_DEPLOYMENT else CHILD_LABELS
    async with store.listing[kind]:
        async for page, version in client.listed(kind, namespace, labels):
            there |= {(body["metadata"]["namespace"], body["metadata"]["name"]) for body in page}
            changed |= {key_of(kind, body) for body in page if store.put(kind, body)}
            as_of = version
        return changed | store.sweep(kind, namespace, there, as_of), as_of


def key_of(kind: Kind, body: Mapping[str, Any]) -> Key:
    """The resource that the object is, or is a child of."""
    metadata = body["metadata"]
    return (None if kind == MODEL_DEPLOYMENT else resource_of(body)) or Key(metadata["namespace"], metadata["name"])
