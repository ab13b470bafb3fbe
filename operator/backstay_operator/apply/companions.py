"""Keeps the companions in order: written where they differ, removed where they are not wanted any more.

What is there is listed once for all resources and remembered for a while, so that a pass at rest asks nobody.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from backstay_contract import names
from backstay_contract.names import Label
from backstay_contract.reasons import Reason
from backstay_contract.resource import ModelDeploymentSpec

from backstay_operator.apply.names import NameTakenError
from backstay_operator.client import ApiError, Client
from backstay_operator.desired import companions as desired
from backstay_operator.desired.common import Json, Owner
from backstay_operator.desired.companions import Choice, Companion
from backstay_operator.kinds import Kind
from backstay_operator.observe.children import owned
from backstay_operator.rollout.decision import Decision, Event

log = logging.getLogger(__name__)

LISTED_SECONDS = 300.0
"""What was listed is believed for so long: somebody else's change is put right, and a new CRD found, within it."""
UNREAD_SECONDS = 2.0
"""The same, where a kind could not be read for a reason that passes: the API server is busy, or sets a new kind up."""

Place = tuple[Kind, str]
"""Kind and name."""
Found = dict[Place, Json]
"""One resource's companions."""


@dataclass(frozen=True)
class Kept:
    """What a pass did. `events` say which names are taken; `problems` what the next pass must try again."""

    changed: bool = False
    events: tuple[Event, ...] = ()
    problems: tuple[str, ...] = ()


class Companions:
    """The companions of all resources."""

    def __init__(
        self, client: Client, choice: Choice, namespaces: tuple[str, ...], clock: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._choice = choice
        self._namespaces = namespaces
        self._clock = clock
        self._found: dict[tuple[str, str], Found] = {}
        """By the resource's namespace and name; whoever made them, a resource of that name is in their labels."""
        self._usable: frozenset[Kind] = frozenset()
        self._unread: tuple[str, ...] = ()
        """What was said about kinds that could not be read, and soon may be."""
        self._listed_at: datetime | None = None
        self._listing = asyncio.Lock()
        self._told: set[str] = set()

    async def keep(self, owner: Owner, spec: ModelDeploymentSpec, decision: Decision) -> Kept:
        """Brings the resource's companions in order, as far as the API server lets it. Raises nothing of its."""
        found = await self._of(owner)
        wanted = {
            (one.kind, one.body["metadata"]["name"]): one
            for one in desired.wanted(owner, spec, decision.status, decision.selector, self._choice)
            if one.kind in self._usable
        }
        unwanted = {place for place, live in found.items() if owned(live, owner)} - wanted.keys()
        changed, events, problems = False, list[Event](), list(self._unread)
        for place in [*wanted, *unwanted]:
            try:
                one = wanted.get(place)
                changed |= await (self._remove(owner, place, found) if one is None else self._bring(owner, one, found))
            except NameTakenError as error:
                problems.append(str(error))
                events += self._tell_once(owner, error)
            except ApiError as error:
                problems.append(str(error))
                self._listed_at = None  # what was remembered may be wrong
        return Kept(changed, tuple(events), tuple(problems))

    async def of(self, owner: Owner) -> list[tuple[Kind, Json]]:
        """The resource's companions as they are."""
        return [(kind, live) for (kind, _), live in (await self._of(owner)).items() if owned(live, owner)]

    def _tell_once(self, owner: Owner, error: NameTakenError) -> list[Event]:
        told = f"{owner.uid}/{error.id}"
        if told in self._told:
            return []
        self._told.add(told)
        return [Event(error.id, Reason.NAME_TAKEN, str(error), warning=True)]

    async def _of(self, owner: Owner) -> Found:
        """A pass keeps the one that it got, also where the memory is renewed under its hands."""
        await self._list()
        return self._found.setdefault((owner.namespace, owner.name), {})

    async def _bring(self, owner: Owner, one: Companion, found: Found) -> bool:
        place = kind, name = one.kind, one.body["metadata"]["name"]
        live = found.get(place)
        if live is None or not owned(live, owner):
            live = await self._client.get(kind, owner.namespace, name)
            if live is not None and not owned(live, owner):
                raise NameTakenError(kind, owner, name)
        if live is None or not desired.is_as_wanted(live, one.body):
            found[place] = _kept(await self._client.apply(kind, one.body))
            return True
        found[place] = _kept(live)
        return False

    async def _remove(self, owner: Owner, place: Place, found: Found) -> bool:
        kind, name = place
        gone = await self._client.delete(kind, owner.namespace, name, found[place]["metadata"]["uid"])
        found.pop(place, None)
        return gone

    async def _list(self) -> None:
        async with self._listing:
            now = self._clock()
            believed = UNREAD_SECONDS if self._unread else LISTED_SECONDS
            if self._listed_at is not None and (now - self._listed_at).total_seconds() < believed:
                return
            self._unread = ()
            found = await asyncio.gather(*(self._read(kind) for kind in self._choice.kinds))
            usable = {kind: one for kind, one in zip(self._choice.kinds, found, strict=True) if one is not None}
            self._usable = frozenset(usable)
            self._found = {}
            for kind, lives in usable.items():
                for live in lives:
                    whose = (live["metadata"]["namespace"], desired.resource_of(live))
                    self._found.setdefault(whose, {})[kind, live["metadata"]["name"]] = live
            self._listed_at = now

    async def _read(self, kind: Kind) -> list[Json] | None:
        """All companions of a kind; None where the cluster lacks the kind, or the operator its rights."""
        mine = {Label.MANAGED_BY: names.MANAGED_BY}
        try:
            if kind in desired.OPTIONAL and not await self._client.serves(kind):
                return None
            lists = [await self._client.list_all(kind, space, mine) for space in self._namespaces or (None,)]
        except ApiError as error:
            log.warning("%s objects are left as they are: %s", kind.name, error)
            if not (error.forbidden or error.not_found):
                self._unread += (str(error),)
            return None
        return [_kept(live) for found in lists for live in found]


def _kept(live: Json) -> Json:
    """What is compared, and no more: thousands of them are remembered."""
    metadata = live["metadata"]
    fields = ("name", "namespace", "uid", "labels", "ownerReferences")
    return {"metadata": {name: metadata[name] for name in fields if name in metadata}, "spec": live.get("spec")}
