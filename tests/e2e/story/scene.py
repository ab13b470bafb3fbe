"""What the chapters of the story share: the place, the watches, steps, and what is waited for and looked at."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from backstay_cluster.progress import Progress, Step
from backstay_contract.names import Label

from tests.e2e.story import history, load, record, settings
from tests.e2e.story.history import Seen
from tests.e2e.story.place import DemoError, Place
from tests.e2e.story.publish import Pushed
from tests.e2e.story.watch import Watch

Json = dict[str, Any]
CHILDREN = f"--selector={Label.RESOURCE}={settings.RESOURCE}"
WHERE = f"--namespace={settings.DEMO}"
NAMED = f"--field-selector=metadata.name={settings.RESOURCE}"


@dataclass
class Scene:
    """One telling of the story."""

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
        self.resources = Watch(kube, "modeldeployments", WHERE, NAMED)
        self.services = Watch(kube, "services", WHERE, NAMED)
        self.pods = Watch(kube, "pods", WHERE, CHILDREN)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "kubectl-get-mdep.txt").write_text("")
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def watch(self) -> None:
        """See and remember all that happens from here on."""
        for watch in (self.resources, self.services, self.pods):
            self._open.enter_context(watch)

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """A step with its time in the story's list."""
        began = time.monotonic()
        with self.progress.step(title) as step:
            yield step
        self.seconds.append((title, time.monotonic() - began))

    # --- what they wait for ---

    def until_tried(self, pushed: Pushed, step: Step) -> None:
        """Until the version is the candidate."""
        self._wait(pushed, lambda status: (status.get("candidate") or {}).get("version") == pushed.version, step, 30)

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


def _names(objects_: list[Json]) -> list[str]:
    return sorted(one["metadata"]["name"] for one in objects_)


def _said(seen: Seen) -> str:
    status = seen.object.get("status") or {}
    return f"{status.get('phase', 'no phase')}, {status.get('reason', '')}: {status.get('message', '')}"
