"""Every read of a pass: children from the API server, and from the pods what only they know.

Pods are asked while an attempt is open, or a losing colour still runs. At rest they are asked when the watch looks,
until all have said that they answer as usual: an operator may have died before it set a mode, or a pod did not hear it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from backstay_contract.mode import Mode
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.rollout import MetricsSource, Strategy
from backstay_contract.status import Attempt, Colour, Fetching, ModelDeploymentStatus

from backstay_operator.client import Client
from backstay_operator.desired import flip_record, services, tokens
from backstay_operator.desired.common import FLIP, Owner
from backstay_operator.evidence import look as looking
from backstay_operator.http import Http
from backstay_operator.observe import children as reading
from backstay_operator.observe import colours, control
from backstay_operator.observe.children import Children
from backstay_operator.observe.cluster import Cluster
from backstay_operator.observe.fetching import Fetches
from backstay_operator.observe.log_tail import with_log_tails
from backstay_operator.observe.smoke import SmokeMemory, Subject
from backstay_operator.queue import Key
from backstay_operator.rollout import deriving, room
from backstay_operator.rollout.capacity.nodes import Nodes
from backstay_operator.rollout.observation import (
    ColourState,
    Evaluation,
    FlipRecord,
    Look,
    Observation,
    Pod,
    Smoke,
    WatchRound,
)
from backstay_operator.settings import Settings

AT_REST = "at rest"
"""What the last look was for, where no attempt was open."""


@dataclass(frozen=True)
class Seen:
    """What a pass saw: the machine's view, and the objects behind it that `apply` compares with."""

    observation: Observation
    children: Children


class Observer:
    """Reads the world for passes. It remembers what saves requests (smoke answers, times of looks), and the watch's
    evidence, which a restart may lose."""

    def __init__(self, client: Client, http: Http, settings: Settings) -> None:
        self._client = client
        self._http = http
        self._settings = settings
        self._smokes = SmokeMemory(http)
        self._fetches = Fetches(client)
        self._cluster = Cluster(client)
        self._looked: dict[str, tuple[str, datetime]] = {}
        self._watches: dict[str, WatchRound] = {}
        self._settled: set[str] = set()
        """Resources at rest whose pods all said that they answer as usual: nothing changes that until an attempt."""

    async def observe(
        self,
        owner: Owner,
        spec: ModelDeploymentSpec,
        status: ModelDeploymentStatus,
        now: datetime,
        wake: Callable[[], None],
        client: Client | None = None,
    ) -> Seen:
        """One pass's reads. `wake` is called when something that was not waited for has ended. `client`: where the
        children are read, if not from the API server."""
        children = await reading.read(client or self._client, owner)
        states = {colour: colours.state_of(colour, owner.name, children, now) for colour in Colour}
        selector = services.selected(children.active) if children.active else None
        flip = _flip(children)
        attempt = status.open_attempt
        due = looking.is_due(spec, status, self._last_look(owner.uid, status), now)
        unsettled = due and owner.uid not in self._settled
        ask = unsettled or status.degraded is not None or _are_asked(states, attempt, selector)
        asked = [pod for state in states.values() for pod in state.pods] if ask else []
        tried = states[attempt.colour] if attempt else None
        serving = flip.to if flip else selector
        judged = tried or (states[serving] if serving else None)
        said, smoke, looks, logged = await asyncio.gather(
            # One that is not ready has no say in anything, and may be dead: waiting for it would delay the way back.
            self._ask(owner, [pod for pod in asked if pod.ready]),
            self._smoke(owner, spec, attempt, tried, selector, children, wake),
            self._looks(owner, spec, attempt, states, judged, now) if due else _no_looks(),
            self._logged(owner, attempt, tried),
        )
        if ask:
            self._settle(owner, status, states[serving].pods if serving else (), said)
        fetching = await self._fetching(owner, attempt, children, now)
        answers = {pod.name: _with_said(logged.get(pod.name, pod), said.get(pod.name)) for pod in asked}
        own = [said[pod.name] for pod in tried.own_pods if pod.ready and pod.name in said] if tried else []
        limits = control.common_limits(own)
        evaluations = await self._evaluations(owner, spec, attempt, tried, said)
        observation = Observation(
            colours={colour: colours.with_answers(state, answers) for colour, state in states.items()},
            selector=selector,
            flip=flip,
            smoke=smoke,
            limits=limits or {},
            limits_known=limits is not None,
            evaluations=evaluations,
            look=looks[0],
            previous_look=looks[1],
            watch=self._watches.get(owner.uid),
            fetching=fetching,
            default_image=self._settings.runtime_image,
        )
        return Seen(await self._with_nodes(owner, spec, status, observation, now), children)

    async def _with_nodes(
        self,
        owner: Owner,
        spec: ModelDeploymentSpec,
        status: ModelDeploymentStatus,
        observation: Observation,
        now: datetime,
    ) -> Observation:
        """With the nodes, where this pass decides whether something is made for a candidate: a large read."""
        attempt = status.open_attempt
        if not self._settings.capacity_check or (attempt is not None and attempt.switched_at is not None):
            return observation
        unlooked = replace(observation, look=None)
        if not room.asks_for_nodes(deriving.derive(spec, status, unlooked, now)):
            return observation
        return replace(observation, nodes=await self._nodes(owner, spec))

    async def _nodes(self, owner: Owner, spec: ModelDeploymentSpec) -> Nodes:
        """With Recreate what serves goes down because of it: then it must be how things are now."""
        fresh = spec.rollout.strategy is Strategy.RECREATE
        return await self._cluster.nodes(Key(owner.namespace, owner.name), fresh=fresh)

    def next_look(
        self, uid: str, spec: ModelDeploymentSpec, status: ModelDeploymentStatus, now: datetime
    ) -> float | None:
        """Seconds until the next look is due after this pass; None where nothing is looked at."""
        look = looking.due_in(spec, status, self._last_look(uid, status), now)
        return min((due for due in (look, self._fetches.due_in(uid, now)) if due is not None), default=None)

    def remember(self, uid: str, watch: WatchRound | None) -> None:
        """What a decision hands to the next pass."""
        self._watches.pop(uid, None)
        if watch is not None:
            self._watches[uid] = watch

    def before(self, uid: str) -> Callable[[], None]:
        """Takes back what the passes from now on remember of looks: those that were made count for nobody."""
        looked, watch = self._looked.get(uid), self._watches.get(uid)

        def back() -> None:
            self._looked.pop(uid, None)
            self._watches.pop(uid, None)
            if looked is not None:
                self._looked[uid] = looked
            if watch is not None:
                self._watches[uid] = watch

        return back

    def forget(self, uid: str) -> None:
        """The resource is gone."""
        self._smokes.forget(uid)
        self._fetches.forget(uid)
        self._looked.pop(uid, None)
        self._watches.pop(uid, None)
        self._settled.discard(uid)

    async def _ask(self, owner: Owner, pods: list[Pod]) -> dict[str, control.Said]:
        if not pods:
            return {}
        token = tokens.token(self._settings.control_key, owner.uid)
        return await control.ask(self._http, token, pods)

    def _settle(
        self, owner: Owner, status: ModelDeploymentStatus, pods: Sequence[Pod], said: Mapping[str, control.Said]
    ) -> None:
        """Of a pod that did not answer, or that was just told another mode, nothing is known yet."""
        there = [pod for pod in pods if not pod.terminating]
        usual = all(pod.name in said and said[pod.name].mode == Mode.NORMAL for pod in there)
        if usual and there and status.open_attempt is None and status.degraded is None:
            self._settled.add(owner.uid)
        else:
            self._settled.discard(owner.uid)

    async def _fetching(
        self, owner: Owner, attempt: Attempt | None, children: Children, now: datetime
    ) -> Fetching | None:
        """Of a candidate only: after the flip its pods have the model."""
        if attempt is None or attempt.switched_at is not None:
            self._fetches.forget(owner.uid)
            return None
        return await self._fetches.read(owner.uid, children.pods.get(attempt.colour, ()), now)

    async def _evaluations(
        self,
        owner: Owner,
        spec: ModelDeploymentSpec,
        attempt: Attempt | None,
        tried: ColourState | None,
        said: Mapping[str, control.Said],
    ) -> dict[str, Evaluation]:
        """The losses of the candidate's pods, from the smoke inference until they are remembered."""
        if attempt is None or tried is None or not spec.rollout.checks.evaluation.enabled:
            return {}
        if attempt.smoke_passed_at is None or attempt.evaluation is not None:
            return {}
        token = tokens.token(self._settings.control_key, owner.uid)
        pods = [pod for pod in tried.own_pods if pod.ready]
        return await control.evaluations(self._http, token, pods, said)

    async def _smoke(
        self,
        owner: Owner,
        spec: ModelDeploymentSpec,
        attempt: Attempt | None,
        tried: ColourState | None,
        selector: Colour | None,
        children: Children,
        wake: Callable[[], None],
    ) -> tuple[Smoke, ...]:
        self._smokes.forget(owner.uid, attempt.id if attempt else None)
        if attempt is None or tried is None or tried.attempt != attempt.id or selector is attempt.colour:
            return ()
        incarnations = {
            pod["metadata"]["name"]: colours.incarnation(pod) for pod in children.pods.get(attempt.colour, ())
        }
        subjects = {
            Subject(owner.uid, attempt.id, pod.name, incarnations.get(pod.name, "")): pod
            for pod in tried.own_pods
            if pod.ready and pod.ip is not None
        }
        return await self._smokes.ask(spec, attempt.digest, subjects, wake)

    async def _looks(
        self,
        owner: Owner,
        spec: ModelDeploymentSpec,
        attempt: Attempt | None,
        states: Mapping[Colour, ColourState],
        judged: ColourState | None,
        now: datetime,
    ) -> tuple[Look | None, Look | None]:
        """At the judged colour and, while an attempt is open, at the other one beside it.

        Until the flip the other one is asked itself, not Prometheus, whose last scrape may be seconds old: what serves
        until the flip would be counted as what is left over after it.
        """
        if judged is None:
            return None, None
        self._looked[owner.uid] = (attempt.id if attempt else AT_REST, now)
        if attempt is None:
            return await self._look(owner, spec.rollout.metrics.source, judged.own_pods), None
        other = [pod for pod in states[attempt.colour.other].own_pods if pod.ready]
        own = [pod for pod in judged.pods if pod.attempt == attempt.id]
        source = spec.rollout.metrics.source
        if not other:
            return await self._look(owner, source, own), None
        before = attempt.switched_at is None and source is MetricsSource.AUTO
        own_look, other_look = await asyncio.gather(
            self._look(owner, source, own), self._look(owner, MetricsSource.PODS if before else source, other)
        )
        return own_look, other_look

    async def _look(self, owner: Owner, source: MetricsSource, judged: Sequence[Pod]) -> Look:
        return await looking.look(
            self._http,
            source,
            self._settings.prometheus_url,
            owner.namespace,
            judged,
            lambda: datetime.now(UTC).timestamp(),
        )

    def _last_look(self, uid: str, status: ModelDeploymentStatus) -> datetime | None:
        """The last look in the open attempt, or at rest; one before the smoke inference took no base that counts."""
        attempt, (of, at) = status.open_attempt, self._looked.get(uid, ("", None))
        if at is None or of != (attempt.id if attempt else AT_REST):
            return None
        smoked = attempt.smoke_passed_at if attempt else None
        return at if smoked is None or at >= smoked else None

    async def _logged(self, owner: Owner, attempt: Attempt | None, tried: ColourState | None) -> dict[str, Pod]:
        """Log lines only for the open attempt's pods: an old failure of a serving pod needs no look each time."""
        if attempt is None or tried is None:
            return {}
        failed = tuple(pod for pod in tried.pods if pod.failure is not None and pod.attempt == attempt.id)
        return {pod.name: pod for pod in await with_log_tails(self._client, owner.namespace, failed)}


async def _no_looks() -> tuple[Look | None, Look | None]:
    return None, None


def _are_asked(states: Mapping[Colour, ColourState], attempt: Attempt | None, selector: Colour | None) -> bool:
    """The active colour's pods are asked as long as the losing one's are: they may still stand by after a way back."""
    losing = (pod for state in states.values() if state.colour is not selector for pod in state.pods)
    return attempt is not None or any(not pod.terminating for pod in losing)


def _with_said(pod: Pod, said: control.Said | None) -> Pod:
    return pod if said is None else replace(pod, mode=said.mode, in_flight=said.in_flight)


def _flip(children: Children) -> FlipRecord | None:
    if children.active is None:
        return None
    text = (children.active["metadata"].get("annotations") or {}).get(FLIP)
    return flip_record.read(text) if text else None
