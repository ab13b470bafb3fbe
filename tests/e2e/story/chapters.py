"""The story, chapter by chapter. Everything in it is done with the commands that people use."""

import time
from pathlib import Path
from typing import Any

from backstay_contract.names import Label

from tests.e2e.story import install, models, objects, publish, record, settings
from tests.e2e.story.models import Models
from tests.e2e.story.place import DemoError
from tests.e2e.story.publish import Pushed
from tests.e2e.story.scene import WHERE, Scene

Json = dict[str, Any]


class Story(Scene):
    """A method is a chapter; `tell` has their order."""

    def install(self) -> None:
        """The operator from the rendered manifests, and a namespace for the demo."""
        with self.step("install the operator") as step:
            step.waits_for("the API server")
            install.operator(self.place)
            install.demo_namespace(self.place)
            self.watch()
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
        with self.step("a rate is chosen for the load") as step:
            step.waits_for("answers one after the other")
            rate = self.load.probe()
            step.note = f"{rate:.1f} requests per second"
        with self.step(f"{settings.FIRST} is measured under load") as step:
            self.load.start(rate)
            since = time.time() + settings.WARM_UP_SECONDS
            while True:
                time.sleep(2.0)
                found = [one for one in self.load.answers() if one.good and one.sent >= since]
                step.waits_for(f"{len(found)} of {settings.SAMPLES} requests")
                if len(found) >= settings.SAMPLES:
                    break
                if time.time() - since > 4 * settings.SAMPLES / rate:
                    raise DemoError(f"only {len(found)} good answers in {time.time() - since:.0f} s of load")
            self.measured = record.baseline(found, since, time.time())
            step.note = f"P99 {self.measured.p99_ms:.0f} ms over {self.measured.samples} requests"

    def better(self, folder: Path) -> None:
        """v2: as good as v1 and half as big. It is watched until its baselines are proven."""
        pushed = self.publish(folder, settings.LIGHTER, self._baselines())
        with self.step(f"{settings.LIGHTER} becomes the candidate") as step:
            self.ask(pushed)
            self.until_tried(pushed, step)
            self.picture(f"{settings.LIGHTER} comes up beside {settings.FIRST}")
            self.until_switched(pushed, step)
        self.picture(f"{settings.LIGHTER} is active and watched")
        with self.step(f"{settings.LIGHTER} soaks") as step:
            self.until_ended(pushed, step)
        with self.step(f"{settings.FIRST} drains and is scaled down") as step:
            self.until_alone(pushed.digest, step)
        self.picture(f"{settings.LIGHTER} is verified")

    def worse(self, folder: Path) -> Json:
        """v3: right answers, many times the work. Goes back by itself."""
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

    def settle(self) -> None:
        """Wait for the answers that are still under way."""
        with self.step("the last answers") as step:
            step.waits_for("requests under way")
            until = time.monotonic() + settings.ANSWERED_WITHIN
            while not self.load.settled() and time.monotonic() < until:
                time.sleep(1.0)

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

    def _baselines(self) -> dict[str, float]:
        assert self.measured is not None
        return {"p99LatencyMs": round(self.measured.p99_ms, 1), "errorRate": 0.0}


def tell(story: Story) -> record.Record:
    """The whole story."""
    made = story.make_models()
    story.install()
    story.first_serves(made.first)
    story.measure()
    story.better(made.lighter)
    resource = story.worse(made.slower)
    before, after = story.reapply(resource)
    story.settle()
    return story.close(before, after)
