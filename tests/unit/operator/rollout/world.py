"""A cluster in memory for the pure machine: what the kubelet, the Service and the runtime would do, told in rules.

One `World.turn` is a pass of the operator: observe, decide, carry out. A pass can be made to die after any of its
writes, as a killed operator does.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from backstay_contract.evidence import EvidenceSource
from backstay_contract.metric import MetricName
from backstay_contract.names import Outcome, RuntimeMetric, format_limit
from backstay_contract.reasons import Reason
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import Attempt, Colour, Failure, ModelDeploymentStatus, Phase
from backstay_judge.samples import Sample
from backstay_operator.rollout.capacity.nodes import Node, Nodes
from backstay_operator.rollout.decide import decide
from backstay_operator.rollout.decision import ColourPlan, Decision, Event
from backstay_operator.rollout.observation import (
    ColourState,
    Evaluation,
    FiringAlert,
    FlipRecord,
    Look,
    Observation,
    Pod,
    PodFailure,
    Smoke,
    WatchRound,
)
from backstay_operator.rollout.revision import Source, Wanted, source_of

START = datetime(2026, 1, 1, tzinfo=UTC)
LIMIT_MS = 500.0


def digest(letter: str) -> str:
    return "sha256:" + letter * 64


def spec(model: str = "a", **changes: Any) -> ModelDeploymentSpec:
    """A spec for the model with that letter; `rollout` and `soak` are laid over quick defaults."""
    soak = {"minSeconds": 4, "maxSeconds": 60, "intervalSeconds": 1, "holdTimeoutSeconds": 20}
    soak |= changes.pop("soak", {})
    rollout = {"soak": soak, "scaleDownDelaySeconds": 3, "drainTimeoutSeconds": 30, "progressDeadlineSeconds": 60}
    rollout |= changes.pop("rollout", {})
    return ModelDeploymentSpec.model_validate(
        {
            "model": {
                "name": "chat",
                "version": f"1.{ord(model)}",
                "uri": f"s3://models/chat/{model}",
                "sha256": digest(model),
                "storage": {"endpoint": "http://minio.minio.svc:9000"},
            },
            "baselines": {"p99LatencyMs": {"value": LIMIT_MS / 2}},
            "rollout": rollout,
            **changes,
        }
    )


@dataclass
class Model:
    """How a model behaves once it is asked to run."""

    seconds_to_ready: float = 1.0
    failure: PodFailure | None = None
    fails_after: float | None = None
    """Seconds after it became ready at which its pods die."""
    smoke: str = "passes"
    slow: float = 0.0
    """Fraction of its requests beyond the limit."""
    failing: float = 0.0
    """Fraction of its requests that end in an error."""
    has_limits: bool = True
    evaluation: Evaluation = field(default_factory=Evaluation)
    """What its pods say of their evaluation set."""


@dataclass
class Live:
    """A Deployment with its pods."""

    wanted: Wanted
    attempt: str
    replicas: int
    born: dict[str, datetime] = field(default_factory=dict)
    in_flight: int = 0
    served: dict[str, int] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)
    source: Source | None = None
    problem: str = ""
    stuck: int = 0
    """Pods on a node that does not answer: a Deployment that is not built anew waits for them for ever."""


class KilledError(Exception):
    """The operator died after a write."""


@dataclass
class World:
    spec: ModelDeploymentSpec = field(default_factory=spec)
    now: datetime = START
    status: ModelDeploymentStatus = field(default_factory=ModelDeploymentStatus)
    models: dict[str, Model] = field(default_factory=dict)
    deployments: dict[Colour, Live] = field(default_factory=dict)
    selector: Colour | None = None
    flip: FlipRecord | None = None
    preview: Colour | None = None
    requests_per_second: int = 200
    kept_alive: float = 0.0
    """Share of the load that still reaches the colour that the Service does not select."""
    metrics_answer: bool = True
    room: bool = True
    slots: int | None = None
    """Pods that the nodes have places for; None: as many as there are, and nobody looks."""
    strangers: int = 0
    """Places that other pods have taken."""
    nodes_may_be_listed: bool = True
    placed: set[str] = field(default_factory=set)
    """Pods that the scheduler found a place for."""
    default_image: str = "runtime:1"
    writes: int = 0
    die_at: int | None = None
    events: dict[str, Event] = field(default_factory=dict)
    passes: list[Decision] = field(default_factory=list)
    selectors: list[Colour | None] = field(default_factory=list)
    ready_behind_service: list[int] = field(default_factory=list)
    flipped_to: list[int] = field(default_factory=list)
    """Ready pods of the colour that each flip went to."""
    stranded: int = 0
    names: int = 0
    watch: WatchRound | None = None
    watched_at: datetime | None = None
    alerts: tuple[FiringAlert, ...] = ()
    broken: dict[str, PodFailure] = field(default_factory=dict)
    """Single pods that fail, by name."""
    slow_pods: set[str] = field(default_factory=set)
    idle_pods: set[str] = field(default_factory=set)
    unready_pods: set[str] = field(default_factory=set)

    # --- what tests do ---------------------------------------------------------------------------------------

    def model(self, letter: str) -> Model:
        return self.models.setdefault(letter, Model())

    def ask(self, model: str, **changes: Any) -> None:
        self.spec = spec(model, **changes)

    def run(self, seconds: float, step: float = 0.5) -> "World":
        """Passes and time until that many seconds are over; a killed operator comes back in the next pass."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self._advance(step)
        return self

    def _advance(self, step: float = 0.5) -> None:
        try:
            decision = self.turn()
        except KilledError:
            self.die_at = None
            self.restart()
            return
        if decision.look_again != 0.0:
            self.tick(step)

    def until(self, *phases: Phase, seconds: float = 120) -> "World":
        end = self.now + timedelta(seconds=seconds)
        while self.status.phase not in phases:
            assert self.now < end, f"still {self.status.phase}: {self.status.message}"
            self._advance()
        return self

    def restart(self) -> None:
        """The operator's process ends and another begins: what it only remembered is gone."""
        self.watch, self.watched_at = None, None

    def live_digest(self) -> str | None:
        return self.deployments[self.selector].wanted.digest if self.selector in self.deployments else None

    @property
    def attempt(self) -> Attempt:
        """The last attempt, open or not."""
        assert self.status.attempt is not None
        return self.status.attempt

    @property
    def last_failure(self) -> Failure:
        assert self.status.last_failure is not None
        return self.status.last_failure

    @property
    def pods_of(self) -> dict[Colour, int]:
        return {colour: len(live.born) for colour, live in self.deployments.items()}

    # --- one pass --------------------------------------------------------------------------------------------

    def turn(self) -> Decision:
        seen = self.observe()
        decision = decide(self.spec, self.status, seen, self.now, generation=1)
        self.passes.append(decision)
        self._take_note(seen, decision)
        self.watch = decision.watch
        for colour, plan in decision.colours.items():
            self._carry_out(colour, plan)
        if decision.flip is not None and self.selector is decision.flip.expected:
            self.selector, self.flip = decision.flip.record.to, decision.flip.record
            self._written()
        elif decision.flip is None and self.selector is not decision.selector:
            self.selector = decision.selector
            self._written()
        if self.preview is not decision.preview:
            self.preview = decision.preview
            self._written()
        if decision.status != self.status:
            self.status = ModelDeploymentStatus.model_validate(decision.status.to_json())
            self._written()
        for event in decision.events:
            self.events[event.id] = event
        self.selectors.append(self.selector)
        self.ready_behind_service.append(
            0 if self.selector is None else sum(p.ready for p in self._pods(self.selector))
        )
        return decision

    def _take_note(self, seen: Observation, decision: Decision) -> None:
        """What must never be: a flip to nobody, and a soak that stays on dead pods beside living ones."""
        if decision.flip is not None:
            self.flipped_to.append(seen.colours[decision.flip.record.to].ready)
        attempt = self.status.attempt
        if attempt is None or attempt.ended_at is not None or attempt.switched_at is None:
            return
        here, there = seen.colours[attempt.colour], seen.colours[attempt.colour.other]
        dead = seen.flip is not None and seen.flip.to is here.colour and here.ready == 0 and there.ready > 0
        self.stranded += dead and decision.selector is here.colour

    def _written(self) -> None:
        self.writes += 1
        if self.die_at is not None and self.writes >= self.die_at:
            raise KilledError

    def _carry_out(self, colour: Colour, plan: ColourPlan) -> None:
        live = self.deployments.get(colour)
        if plan.anew:
            del self.deployments[colour]
            self._written()
        elif plan.build is not None:
            if live is not None:
                live.born.clear()
            self.deployments[colour] = Live(
                plan.build, plan.attempt, plan.replicas, source=source_of(plan.build.recipe.model)
            )
            self._written()
        elif live is not None and live.replicas != plan.replicas:
            live.replicas = plan.replicas
            self._written()

    # --- time ------------------------------------------------------------------------------------------------

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        for colour, live in self.deployments.items():
            while len(live.born) > live.replicas:
                live.born.popitem()
            while len(live.born) < live.replicas and not live.stuck:
                self.names += 1
                live.born[f"chat-{colour}-{self.names}"] = self.now
        self._schedule()
        for colour, live in self.deployments.items():
            for pod in self._pods(colour):
                share = self.requests_per_second * seconds / max(1, len(live.born))
                reaches = 1.0 if self.selector is colour else self.kept_alive
                if pod.ready and pod.name not in self.idle_pods:
                    self._serve(live, pod.name, round(share * reaches))

    def _schedule(self) -> None:
        """Pods that wait take the places that are free, in the order of their colours."""
        lives = list(self.deployments.values())
        self.placed &= {name for live in lives for name in live.born}
        for live in lives:
            for name in live.born:
                if name not in self.placed and self._free_slots() > 0:
                    self.placed.add(name)
                    live.born[name] = self.now if self.slots is not None else live.born[name]

    def _free_slots(self) -> int:
        return 1_000 if self.slots is None else self.slots - self.strangers - len(self.placed)

    def _nodes(self) -> Nodes | None:
        if self.slots is None:
            return None
        if not self.nodes_may_be_listed:
            return Nodes(problem="nodes is forbidden")
        held = {
            colour: {"pods": Decimal(len(self.placed & live.born.keys()))} for colour, live in self.deployments.items()
        }
        taken = {"pods": Decimal(self.strangers + len(self.placed))}
        return Nodes((Node("n1", has={"pods": Decimal(self.slots)}, taken=taken, held=held),))

    def _serve(self, live: Live, pod: str, requests: int) -> None:
        model = self._model(live)
        live.served[pod] = live.served.get(pod, 0) + requests
        slow = 1.0 if pod in self.slow_pods else model.slow
        live.slow[pod] = live.slow.get(pod, 0.0) + requests * slow
        live.failed[pod] = live.failed.get(pod, 0.0) + requests * model.failing

    # --- what is seen ----------------------------------------------------------------------------------------

    def _model(self, live: Live) -> Model:
        return self.model(live.wanted.digest[-1])

    def _pods(self, colour: Colour) -> tuple[Pod, ...]:
        live = self.deployments.get(colour)
        return tuple(self._pod(live, name, born) for name, born in live.born.items()) if live else ()

    def _pod(self, live: Live, name: str, born: datetime) -> Pod:
        model, age = self._model(live), (self.now - born).total_seconds()
        pod = Pod(name, live.wanted.revision, live.attempt, ready=False, ip="10.0.0.1", mode="normal")
        if not self.room and not self._is_active(name):
            return replace(pod, unschedulable="0/1 nodes are available: 1 Insufficient memory.")
        if self.slots is not None and name not in self.placed:
            return replace(pod, unschedulable="0/1 nodes are available: 1 Too many pods.")
        failure = self.broken.get(name, model.failure)
        if failure is not None:
            return replace(pod, failure=failure)
        died = model.fails_after is not None and age >= model.seconds_to_ready + model.fails_after
        if died:
            return replace(pod, failure=PodFailure(Reason.OOM_KILLED, "killed for memory", True, "serve", 137))
        ready = age >= model.seconds_to_ready and name not in self.unready_pods
        return replace(pod, ready=ready, in_flight=live.in_flight)

    def _is_active(self, pod: str) -> bool:
        return self.selector in self.deployments and pod in self.deployments[self.selector].born

    def observe(self) -> Observation:
        attempt = self.status.attempt
        candidate = attempt.colour if attempt is not None and attempt.ended_at is None else None
        pods = self._pods(candidate) if candidate else ()
        model = self._model(self.deployments[candidate]) if candidate in self.deployments else Model()
        return Observation(
            colours={colour: self._state(colour) for colour in Colour},
            selector=self.selector,
            flip=self.flip,
            smoke=tuple(self._smoke(pod, model) for pod in pods if pod.ready) if candidate else (),
            limits=self.spec.baselines.limits() if model.has_limits else {},
            limits_known=any(pod.ready for pod in pods),
            evaluations={pod.name: model.evaluation for pod in pods if pod.ready},
            look=self._look(candidate) if candidate else self._look_at_rest(),
            previous_look=self._look(candidate.other) if candidate else None,
            watch=self.watch,
            alerts=self.alerts,
            nodes=self._nodes(),
            default_image=self.default_image,
        )

    def _state(self, colour: Colour) -> ColourState:
        live = self.deployments.get(colour)
        if live is None:
            return ColourState(colour)
        return ColourState(
            colour,
            exists=True,
            revision=live.wanted.revision,
            attempt=live.attempt,
            digest=live.wanted.digest,
            version=live.wanted.version,
            image=live.wanted.image,
            source=live.source,
            problem=live.problem,
            stuck=live.stuck,
            replicas=live.replicas,
            pods=self._pods(colour),
            endpoints=len(live.born) if self.selector is colour else 0,
        )

    def _smoke(self, pod: Pod, model: Model) -> Smoke:
        if model.smoke == "wrong":
            return Smoke(pod.name, passed=False, wrong=True, message="x-model-digest names another digest")
        return Smoke(pod.name, passed=model.smoke == "passes", message="timed out")

    def _look_at_rest(self) -> Look | None:
        if self.selector is None or (self.watched_at is not None and not self._is_time_to_watch(self.watched_at)):
            return None
        self.watched_at = self.now
        return self._look(self.selector)

    def _is_time_to_watch(self, last: datetime) -> bool:
        return (self.now - last).total_seconds() >= self.spec.rollback.watch.interval_seconds

    def _look(self, colour: Colour) -> Look:
        if not self.metrics_answer:
            return Look((), EvidenceSource.PODS, "connection refused")
        live = self.deployments.get(colour)
        samples = [s for pod in self._pods(colour) if live and pod.ready for s in self._samples(live, pod)]
        return Look(tuple(samples), EvidenceSource.PODS)

    def _samples(self, live: Live, pod: Pod) -> list[Sample]:
        n = live.served.get(pod.name, 0)
        k, failed = round(live.slow.get(pod.name, 0.0)), round(live.failed.get(pod.name, 0.0))
        limit = live.wanted.recipe.baselines.limits().get(MetricName.P99_LATENCY, LIMIT_MS)
        stamp, labels = self.now.timestamp(), {"pod": pod.name, "digest": live.wanted.digest}
        latency = {**labels, "metric": MetricName.P99_LATENCY.value}
        return [
            Sample("process_start_time_seconds", {"pod": pod.name}, live.born[pod.name].timestamp(), stamp),
            Sample(RuntimeMetric.JUDGED, latency, n, stamp),
            Sample(RuntimeMetric.SLOW, {**latency, "limit": format_limit(limit)}, k, stamp),
            Sample(RuntimeMetric.FINISHED, {**labels, "outcome": Outcome.OK}, n - failed, stamp),
            Sample(RuntimeMetric.FINISHED, {**labels, "outcome": Outcome.ERROR}, failed, stamp),
        ]


def serving(model: str = "a", **changes: Any) -> World:
    """A world in which that model serves, verified."""
    world = World(spec=spec(model, **changes))
    world.run(30)
    assert world.status.phase is Phase.SERVING, world.status.message
    return world
