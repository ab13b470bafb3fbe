"""The spine: observe, decide, apply, write the status once, tell."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from backstay_contract import names
from backstay_contract.reasons import Reason
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import NO_COLOUR, ModelDeploymentStatus, Notice
from pydantic import ValidationError

from backstay_operator import kinds, refusal
from backstay_operator import resource as resources
from backstay_operator.alerts.board import Board
from backstay_operator.apply import finalizer
from backstay_operator.apply import status as writing
from backstay_operator.apply.apply import Applied, apply
from backstay_operator.apply.companions import Companions
from backstay_operator.apply.names import NameTakenError
from backstay_operator.client import Client
from backstay_operator.http import Http
from backstay_operator.notify import notices
from backstay_operator.observe.observe import Observer, Seen
from backstay_operator.queue import Key
from backstay_operator.resource import Resource
from backstay_operator.rollout import memory
from backstay_operator.rollout.decide import decide
from backstay_operator.rollout.decision import Decision, Event
from backstay_operator.rollout.observation import FiringAlert, Observation, Serving
from backstay_operator.rollout.stand_in import stand_in
from backstay_operator.rollout.way_back import troubles
from backstay_operator.settings import Settings
from backstay_operator.store import BeyondStoreError, Store, StoreClient
from backstay_operator.teardown import Teardown
from backstay_operator.telemetry import Telemetry
from backstay_operator.telling import Teller

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""After something that is done as well as possible, such as a pod's mode, did not succeed."""
BLOCKED_SECONDS = 30.0
"""While something is in the way that no event tells the end of, such as an object of somebody else's."""


class Reconciler:
    """Passes over resources. Everything it decides on is read in the pass itself."""

    def __init__(
        self,
        client: Client,
        http: Http,
        settings: Settings,
        telemetry: Telemetry,
        clock: Callable[[], datetime],
        wake: Callable[[Key], None],
        offer: Callable[[resources.Json], None] = lambda _: None,
        board: Board | None = None,
        store: Store | None = None,
    ) -> None:
        self._client = client
        self._http = http
        self._settings = settings
        self._telemetry = telemetry
        self._clock = clock
        self._wake = wake
        self._board = board or Board(wake)
        self._store = store if store is not None else Store()
        self._observer = Observer(client, http, settings)
        self._companions = Companions(client, settings.companions, settings.namespaces, clock)
        self._teardown = Teardown(client, self._companions)
        self._uids: dict[Key, str] = {}
        self._specs: dict[str, ModelDeploymentSpec] = {}
        self._served: dict[Key, Serving] = {}
        self._teller = Teller(client, settings.instance, offer)

    async def recall(self) -> None:
        """What was told before, by an operator before this one."""
        await self._teller.recall(self._settings.namespaces)

    async def reconcile(self, key: Key) -> float | None:
        """One pass: seconds until the next one, None where only a change calls for it. Raises ApiError and others:
        then the pass has to be tried again."""
        version, alerts = self._board.firing(key)
        self._served.pop(key, None)
        again = await self._either(key, alerts)
        self._board.passed(key, version, self._served.get(key), exists=key in self._uids)
        return again

    async def _either(self, key: Key, alerts: tuple[FiringAlert, ...]) -> float | None:
        """At rest the pass goes by what the watches said. Where something is to be written, it is done again on what
        the API server has now, as if it had not been."""
        known = self._store.get(kinds.MODEL_DEPLOYMENT, key.namespace, key.name)
        if known is not None and resources.is_at_rest(known):
            back = self._observer.before(known["metadata"]["uid"])
            try:
                return await self._pass(key, alerts, StoreClient(self._store))
            except BeyondStoreError:
                back()
        return await self._pass(key, alerts, self._client)

    async def _pass(self, key: Key, alerts: tuple[FiringAlert, ...], client: Client) -> float | None:
        body = await client.get(kinds.MODEL_DEPLOYMENT, key.namespace, key.name)
        if body is None:
            self._forget(key)
            return None
        resource = resources.read(body)
        self._uids[key] = resource.owner.uid
        if resource.deleting_since is not None:
            return await self._teardown.step(resource, self._clock())
        status = memory.status(resource.stored_status)
        spec, wrong = self._spec(resource, status)
        if spec is None:
            return None if wrong is None else await self._refuse(client, resource, "SpecValid", wrong)
        seen = await self._observer.observe(
            resource.owner, spec, status, self._clock(), lambda: self._wake(key), client
        )
        seen = replace(seen, observation=replace(seen.observation, alerts=alerts))
        self._serves(key, status, seen.observation)
        decision = decide(spec, status, seen.observation, self._clock(), resource.generation)
        self._observer.remember(resource.owner.uid, decision.watch)
        if wrong is not None:
            decision = refusal.in_spite_of(decision, status, wrong, self._clock())
        resource = await finalizer.add(client, resource)
        try:
            key_bytes = self._settings.control_key
            applied = await apply(client, self._http, key_bytes, resource, spec, decision, seen)
        except NameTakenError as error:
            event = Event(error.id, Reason.NAME_TAKEN, str(error), warning=True)
            return soonest(await self._refuse(client, resource, "NamesFree", event), BLOCKED_SECONDS)
        if applied.flipped and decision.reason is Reason.BREACH:
            self._observe_flip(seen)
        selector = names.pods_of(resource.owner.name, decision.selector or NO_COLOUR)
        new = [notices.of(event, decision.status, self._clock()) for event in (*decision.events, *applied.events)]
        remembered = notices.recorded(status.notices, new)
        written = decision.status.with_(selector=selector, notices=remembered)
        await writing.write(client, resource, written.to_json())
        self._log(key, status, decision, applied)
        self._telemetry.show(key, status, decision.status)
        untold = await self._tell(resource, status, new)
        kept = await self._companions.keep(resource.owner, spec, decision)
        for problem in kept.problems:
            log.warning("%s", problem, extra={"resource": str(key)})
        beside = [notices.of(event, decision.status, self._clock()) for event in kept.events]
        untold = soonest(untold, await self._tell(resource, status, beside))
        next_look = self._observer.next_look(resource.owner.uid, spec, decision.status, self._clock())
        retry = RETRY_SECONDS if applied.problems else None
        blocked = BLOCKED_SECONDS if kept.problems else None
        return soonest(decision.look_again, next_look, retry, blocked, untold)

    def _spec(
        self, resource: Resource, status: ModelDeploymentStatus
    ) -> tuple[ModelDeploymentSpec | None, Event | None]:
        """The spec, or one to go on with and what is wrong with the stored one; None where nothing is known to go on
        with."""
        uid = resource.owner.uid
        try:
            self._specs[uid] = resource.spec(node_cache=self._settings.node_cache)
        except ValidationError as error:
            said = resources.sentence(error)
            event = Event(f"spec.{resource.generation}", Reason.SPEC_INVALID, said, warning=True)
            return stand_in(self._specs.get(uid), status), event
        return self._specs[uid], None

    async def _refuse(self, client: Client, resource: Resource, condition: str, event: Event) -> float | None:
        """Something that only a person can change is in the way: the active colour serves on, the status says why.
        The seconds until the next pass, where that could not be told to people."""
        before, now = memory.status(resource.stored_status), self._clock()
        status = refusal.status(before, before.conditions, condition, event, resource.generation, now)
        new = [notices.of(event, status, now)] if writing.operations(resource.stored_status, status.to_json()) else []
        remembered = status.with_(notices=notices.recorded(before.notices, new))
        await writing.write(client, resource, remembered.to_json())
        return await self._tell(resource, before, new)

    async def _tell(self, resource: Resource, before: ModelDeploymentStatus, new: Sequence[Notice]) -> float | None:
        """Tells what is new, and at first what an operator before this one may have left untold."""
        owner, left = resource.owner, tuple[Notice, ...]()
        if not self._teller.knows(owner):
            left = self._teller.untold(owner, notices.lately(before.notices, self._clock()))
        return await self._teller.tell(resource.owner, (*left, *new))

    def _observe_flip(self, seen: Seen) -> None:
        look = seen.observation.look
        if look is not None and look.samples:
            newest = max(sample.timestamp for sample in look.samples)
            self._telemetry.flips.observe(max(0.0, self._clock().timestamp() - newest))

    def _log(self, key: Key, before: ModelDeploymentStatus, decision: Decision, applied: Applied) -> None:
        """One line for each decision that changed something."""
        after = decision.status
        for problem in applied.problems:
            log.warning("%s", problem, extra={"resource": str(key)})
        if not applied.changed and (before.phase, before.reason) == (after.phase, after.reason):
            return
        attempt = after.attempt.id if after.attempt else None
        extra = {"resource": str(key), "phase": after.phase.value, "reason": str(decision.reason), "attempt": attempt}
        log.info("%s: %s: %s", after.phase.value, decision.reason.value, decision.sentence, extra=extra)

    def forget_all(self) -> None:
        """Another operator leads: it shows the resources from now on."""
        for key in list(self._uids):
            self._forget(key)

    def _serves(self, key: Key, status: ModelDeploymentStatus, seen: Observation) -> None:
        """What serves when the pass begins."""
        if seen.selector is not None:
            since = troubles.serves_since(status.open_attempt, seen.flip)
            self._served[key] = Serving(seen.colours[seen.selector].digest, since)

    def _forget(self, key: Key) -> None:
        self._telemetry.forget(key)
        self._served.pop(key, None)
        uid = self._uids.pop(key, None)
        if uid is not None:
            self._observer.forget(uid)
            self._specs.pop(uid, None)
            self._teller.forget(uid)


def soonest(*seconds: float | None) -> float | None:
    """The least of those that are given."""
    return min((s for s in seconds if s is not None), default=None)
