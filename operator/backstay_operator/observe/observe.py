"""Every read of a pass: children from the API server, and from the pods what only they know.

At rest nothing but the API server is asked. Pods are asked while an attempt is open, or a losing colour still runs.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import Attempt, Colour, ModelDeploymentStatus

from backstay_operator.client import Client
from backstay_operator.desired import flip_record, services, tokens
from backstay_operator.desired.common import FLIP, Owner
from backstay_operator.evidence import look as looking
from backstay_operator.http import Http
from backstay_operator.observe import children as reading
from backstay_operator.observe import colours, control, nodes
from backstay_operator.observe.children import Children
from backstay_operator.observe.log_tail import with_log_tails
from backstay_operator.observe.smoke import SmokeMemory, Subject
from backstay_operator.rollout import deriving, room
from backstay_operator.rollout.observation import ColourState, Evaluation, FlipRecord, Look, Observation, Pod, Smoke
from backstay_operator.settings import Settings


@dataclass(frozen=True)
class Seen:
    """What a pass saw: the machine's view, and the objects behind it that `apply` compares with."""

    observation: Observation
    children: Children


class Observer:
    """Reads the world for passes. It remembers only what saves requests: smoke answers, times of looks."""

    def __init__(self, client: Client, http: Http, settings: Settings) -> None:
        self._client = client
        self._http = http
        self._settings = settings
        self._smokes = SmokeMemory(http)
        self._looked: dict[str, tuple[str, datetime]] = {}

    async def observe(
        self,
        owner: Owner,
        spec: ModelDeploymentSpec,
        status: ModelDeploymentStatus,
        now: datetime,
        wake: Callable[[], None],
    ) -> Seen:
        """One pass's reads. `wake` is called when something that was not waited for has ended."""
        children = await reading.read(self._client, owner)
        states = {colour: colours.state_of(colour, owner.name, children) for colour in Colour}
        selector = services.selected(children.active) if children.active else None
        attempt = open_attempt(status)
        asked = (
            [pod for state in states.values() for pod in state.pods] if _are_asked(states, attempt, selector) else []
        )
        tried = states[attempt.colour] if attempt else None
        said, smoke, look, logged = await asyncio.gather(
            # One that is not ready has no say in anything, and may be dead: waiting for it would delay the way back.
            self._ask(owner, [pod for pod in asked if pod.ready]),
            self._smoke(owner, spec, attempt, tried, selector, children, wake),
            self._look(owner, spec, status, tried, now),
            self._logged(owner, attempt, tried),
        )
        answers = {pod.name: _with_said(logged.get(pod.name, pod), said.get(pod.name)) for pod in asked}
        own = [said[pod.name] for pod in tried.own_pods if pod.ready and pod.name in said] if tried else []
        limits = control.common_limits(own)
        evaluations = await self._evaluations(owner, spec, attempt, tried, said)
        observation = Observation(
            colours={colour: colours.with_answers(state, answers) for colour, state in states.items()},
            selector=selector,
            flip=_flip(children),
            smoke=smoke,
            limits=limits or {},
            limits_known=limits is not None,
            evaluations=evaluations,
            look=look,
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
        attempt = open_attempt(status)
        if not self._settings.capacity_check or (attempt is not None and attempt.switched_at is not None):
            return observation
        unlooked = replace(observation, look=None)
        if not room.asks_for_nodes(deriving.derive(spec, status, unlooked, now)):
            return observation
        return replace(observation, nodes=await nodes.read(self._client, owner))

    def next_look(
        self, uid: str, spec: ModelDeploymentSpec, status: ModelDeploymentStatus, now: datetime
    ) -> float | None:
        """Seconds until the next look is due after this pass; None where nothing is looked at."""
        return looking.due_in(spec, status, self._last_look(uid, status), now)

    def forget(self, uid: str) -> None:
        """The resource is gone."""
        self._smokes.forget(uid)
        self._looked.pop(uid, None)

    async def _ask(self, owner: Owner, pods: list[Pod]) -> dict[str, control.Said]:
        if not pods:
            return {}
        token = tokens.token(self._settings.control_key, owner.uid)
        return await control.ask(self._http, token, pods)

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

    async def _look(
        self,
        owner: Owner,
        spec: ModelDeploymentSpec,
        status: ModelDeploymentStatus,
        tried: ColourState | None,
        now: datetime,
    ) -> Look | None:
        attempt = open_attempt(status)
        if attempt is None or tried is None:
            return None
        if not looking.is_due(spec, status, self._last_look(owner.uid, status), now):
            return None
        self._looked[owner.uid] = (attempt.id, now)
        return await looking.look(
            self._http,
            spec.rollout.metrics.source,
            self._settings.prometheus_url,
            owner.namespace,
            [pod for pod in tried.pods if pod.attempt == attempt.id],
            lambda: datetime.now(UTC).timestamp(),
        )

    def _last_look(self, uid: str, status: ModelDeploymentStatus) -> datetime | None:
        """The last look in the open attempt; a look of before the smoke inference took no base that counts."""
        attempt, (of, at) = status.attempt, self._looked.get(uid, ("", None))
        if attempt is None or at is None or of != attempt.id:
            return None
        smoked = attempt.smoke_passed_at
        return at if smoked is None or at >= smoked else None

    async def _logged(self, owner: Owner, attempt: Attempt | None, tried: ColourState | None) -> dict[str, Pod]:
        """Log lines only for the open attempt's pods: an old failure of a serving pod needs no look each time."""
        if attempt is None or tried is None:
            return {}
        failed = tuple(pod for pod in tried.pods if pod.failure is not None and pod.attempt == attempt.id)
        return {pod.name: pod for pod in await with_log_tails(self._client, owner.namespace, failed)}


def open_attempt(status: ModelDeploymentStatus) -> Attempt | None:
    """The attempt that is not decided yet."""
    attempt = status.attempt
    return attempt if attempt is not None and attempt.ended_at is None else None


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
