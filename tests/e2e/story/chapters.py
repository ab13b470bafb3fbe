"""The story, chapter by chapter. Everything in it is done with the commands that people use."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from backstay_cluster.progress import Progress, Step
from backstay_contract.names import MANAGED_BY, Label

from tests.e2e.story import history, install, load, models, objects, publish, record, settings
from tests.e2e.story.history import Seen
from tests.e2e.story.models import Models
from tests.e2e.story.place import DemoError, Place
from tests.e2e.story.publish import Pushed
from tests.e2e.story.watch import Watch

Json = dict[str, Any]
CHILDREN = f"--selector={Label.MANAGED_BY}={MANAGED_BY}"
WHERE = f"--namespace={settings.DEMO}"


@dataclass
class Story:
    """What the chapters share, and what they found."""

    place: Place
    progress: Progress
    folder: Path
    """What was seen is kept here."""
    run: str = field(default_factory=lambda: time.strftime("run-%Y%m%d-%H%M%S", time.gmtime()))
    seconds: list[tuple[str, float]] = field(default_factory=list)
    asked: dict[str, tuple[Pushed, float]] = field(default_factory=dict)
    """By version: what was pushed, and when it was asked for."""
    measured: record.Baseline | None = None
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        kube = self.place.kube
        self.load = load.Load(kube, self.place.runtime_image)
        self.resources = Watch(kube, "modeldeployments", WHERE)
        self.services = Watch(kube, "services", WHERE, f"--field-selector=metadata.name={settings.RESOURCE}")
        self.pods = Watch(kube, "pods", WHERE, CHILDREN)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "kubectl-get-mdep.txt").write_text("")
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """A step with its time in the story's list."""
        began = time.monotonic()
        with self.progress.step(title) as step:
            yield step
        self.seconds.append((title, time.monotonic() - began))

    # --- the chapters ---

    def install(self) -> None:
        """The operator from the rendered manifests, and a namespace for the demo."""
        with self.step("install the operator") as step:
            step.waits_for("the API server")
            install.operator(self.place)
            install.demo_namespace(self.place)
            for watch in (self.resources, self.services, self.pods):
                self._open.enter_context(watch)
            step.waits_for("the operator's pod")
            install.wait_for_operator(self.place)

    def make_models(self) -> Models:
        """Three versions of one model."""
        with self.step("three versions of SmolLM2-135M-Instruct") as step:
            return models.ensure(step)

    def publish(self, folder: Path, version: str, baselines: dict[str, float]) -> Pushed:
        """`backstay push`."""
        with self.step(f"push {version}") as step:
            step.waits_for("the object storage")
            pushed = publish.push(self.place, folder, version, run=self.run, baselines=baselines)
            step.note = f"{pushed.size / 1e6:.0f} MB, {pushed.digest[:19]}…"
            return pushed

    def ask(self, pushed: Pushed, **soak: object) -> Json:
        """`backstay render | kubectl apply`; the resource that was applied."""
        resource = publish.resource(self.place, pushed, **soak)
        self.asked[pushed.version] = (pushed, time.time())
        self.place.kube.apply(resource)
        return resource

    def first_serves(self, folder: Path) -> None:
        """v1: nothing was there before, and it has no baselines to be judged by."""
        pushed = self.publish(folder, settings.FIRST, {})
        with self.step(f"{settings.FIRST} comes into service") as step:
            self.ask(pushed, minSeconds=settings.FIRST_SOAK_SECONDS)
            self.until_ended(pushed, step)
        self.picture(f"{settings.FIRST} serves")

    def measure(self) -> None:
        """Steady load from here on; what v1 does under it becomes the baseline of the later versions."""
        with self.step("load starts, and v1 is measured under it") as step:
            self.load.start()
            since = time.time() + settings.WARM_UP_SECONDS
            while True:
                time.sleep(2.0)
                found = [one for one in self.load.answers() if one.good and one.sent >= since]
                step.waits_for(f"{len(found)} of {settings.SAMPLES} requests")
                if len(found) >= settings.SAMPLES:
                    break
                if time.time() - since > 4 * settings.SAMPLES / (settings.RATE * len(settings.KINDS)):
                    raise DemoError(f"only {len(found)} good answers in {time.time() - since:.0f} s of load")
            self.measured = record.baseline(found, since, time.time())
            step.note = f"P99 {self.measured.p99_ms:.0f} ms over {self.measured.samples} requests"

    def better(self, folder: Path) -> None:
        """v2: as good as v1 and half as big. It is watched until its baselines are proven."""
        pushed = self.publish(folder, settings.LIGHTER, self._baselines())
        with self.step(f"{settings.LIGHTER} becomes the candidate") as step:
            self.ask(pushed)
            self.until_switched(pushed, step)
        self.picture(f"{settings.LIGHTER} is active and watched")
        with self.step(f"{settings.LIGHTER} soaks") as step:
            self.until_ended(pushed, step)
        with self.step(f"{settings.FIRST} drains and is scaled down") as step:
            self.until_alone(pushed.digest, step)
        self.picture(f"{settings.LIGHTER} is verified")

    def worse(self, folder: Path) -> Json:
        """v3: right answers, four times the work. Goes back by itself."""
        pushed = self.publish(folder, settings.SLOWER, self._baselines())
        with self.step(f"{settings.SLOWER} becomes the candidate") as step:
            resource = self.ask(pushed)
            self.until_switched(pushed, step)
        self.picture(f"{settings.SLOWER} is active and watched")
        with self.step(f"{settings.SLOWER} soaks") as step:
            self.until_ended(pushed, step)
        self.picture(f"{settings.SLOWER} breached and was left")
        with self.step(f"{settings.SLOWER} drains and is scaled down") as step:
            self.until_alone(self.asked[settings.LIGHTER][0].digest, step)
        return resource

    def reapply(self, resource: Json) -> tuple[Json, Json]:
        """The rejected resource again, with another annotation: (children before, children after)."""
        with self.step("the rejected resource is applied again") as step:
            before = self.children()
            self.place.kube.apply(objects.annotated(resource, note="try-again"))
            step.waits_for(f"{settings.WATCHED_AFTER_REAPPLY:g} s to pass without a change")
            time.sleep(settings.WATCHED_AFTER_REAPPLY)
            after = self.children()
        self.picture("the rejected resource was applied again")
        return before, after

    def close(self, before: Json, after: Json) -> record.Record:
        """Put together what was seen."""
        answers, until = self.load.keep(self.folder)
        kube = self.place.kube
        resource = kube.get("modeldeployment", settings.RESOURCE, WHERE)
        service = kube.get("service", settings.RESOURCE, WHERE)
        resources, services, pods = self.resources.seen, self.services.seen, self.pods.seen
        rollouts = tuple(
            record.rollout(
                resources,
                services,
                pods,
                version=version,
                digest=pushed.digest,
                size=pushed.size,
                asked_at=asked_at,
            )
            for version, (pushed, asked_at) in self.asked.items()
        )
        assert self.measured is not None
        excused, moves = rollouts[-1].digest, record.moves(rollouts)
        return record.Record(
            rollouts=rollouts,
            traffic=tuple(
                record.traffic(answers, kind, until=until, excused=excused, moves=moves) for kind in settings.KINDS
            ),
            baseline=self.measured,
            status=resource["status"],
            selected=str(service["spec"]["selector"].get(Label.COLOUR)),
            before_reapply=before,
            after_reapply=after,
            steps=tuple(self.seconds),
        )

    # --- what they wait for ---

    def until_switched(self, pushed: Pushed, step: Step) -> None:
        """Until the Service selects the version; DemoError if its attempt ends before."""

        def switched(status: Json) -> bool:
            attempt = status.get("attempt") or {}
            return attempt.get("version") == pushed.version and bool(
                attempt.get("switchedAt") or attempt.get("endedAt")
            )

        seen = self._wait(pushed, switched, step, settings.STARTS_WITHIN)
        if not seen.object["status"]["attempt"].get("switchedAt"):
            raise DemoError(f"{pushed.version} ended before it was active: {_said(seen)}")

    def until_ended(self, pushed: Pushed, step: Step) -> Seen:
        """Until the version's attempt is decided."""

        def ended(status: Json) -> bool:
            attempt = status.get("attempt") or {}
            return attempt.get("version") == pushed.version and bool(attempt.get("endedAt"))

        return self._wait(pushed, ended, step, settings.STARTS_WITHIN + settings.SOAKS_WITHIN)

    def until_alone(self, digest: str, step: Step) -> None:
        """Until this model's pods are the only ones."""
        wanted = digest.removeprefix("sha256:")
        until = time.monotonic() + settings.STARTS_WITHIN
        while True:
            found = self.place.kube.items("pods", WHERE, CHILDREN)
            others = [one for one in found if record.digest_of(one) != wanted]
            if not others:
                return
            if time.monotonic() > until:
                raise DemoError(f"{others[0]['metadata']['name']} does not end")
            step.waits_for(f"{others[0]['metadata']['name']} to finish its requests")
            time.sleep(0.5)

    def _wait(self, pushed: Pushed, wanted: history.Wanted, step: Step, within_s: float) -> Seen:
        since, until = self.asked[pushed.version][1], time.monotonic() + within_s
        while time.monotonic() < until:
            found = self.resources.wait(lambda one: wanted(one.get("status") or {}), since, 1.0)
            if found is not None:
                return found
            seen = self.resources.seen
            step.waits_for(_said(seen[-1]) if seen else "the resource")
        seen = self.resources.seen
        raise DemoError(
            f"{pushed.version}: not decided after {within_s:.0f} s: {_said(seen[-1]) if seen else 'nothing'}"
        )

    # --- what they look at ---

    def picture(self, title: str) -> None:
        """`kubectl get mdep` as it is now: told, and kept."""
        text = self.place.kube.run("get", "mdep", WHERE)
        with (self.folder / "kubectl-get-mdep.txt").open("a") as file:
            file.write(f"# {title}\n$ kubectl get mdep\n{text}\n")
        for line in text.rstrip().splitlines():
            self.progress.say(f"          {line}")

    def children(self) -> Json:
        """Everything that a new try would change."""
        kube = self.place.kube
        resource = kube.get("modeldeployment", settings.RESOURCE, WHERE)
        deployments = kube.items("deployments", WHERE, CHILDREN)
        return {
            "attempts": resource["status"].get("attempts"),
            "deployments": {
                one["metadata"]["name"]: [one["metadata"]["generation"], one["spec"]["replicas"]] for one in deployments
            },
            "replicasets": _names(kube.items("replicasets", WHERE, CHILDREN)),
            "pods": _names(kube.items("pods", WHERE, CHILDREN)),
        }

    def _baselines(self) -> dict[str, float]:
        assert self.measured is not None
        return {"p99LatencyMs": round(self.measured.p99_ms, 1), "errorRate": 0.0}


def _names(objects_: list[Json]) -> list[str]:
    return sorted(one["metadata"]["name"] for one in objects_)


def _said(seen: Seen) -> str:
    status = seen.object.get("status") or {}
    return f"{status.get('phase', 'no phase')}, {status.get('reason', '')}: {status.get('message', '')}"


def tell(story: Story) -> record.Record:
    """The whole story."""
    made = story.make_models()
    story.install()
    story.first_serves(made.first)
    story.measure()
    story.better(made.lighter)
    resource = story.worse(made.slower)
    before, after = story.reapply(resource)
    return story.close(before, after)
