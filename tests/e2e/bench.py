"""What the end-to-end tests work with: tiny models, one resource, and questions to the Service in front of it."""

import hashlib
import io
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from backstay_contract.names import Label

from tests.e2e.story import bucket, objects, publish, settings
from tests.e2e.story.history import Seen
from tests.e2e.story.place import Place
from tests.e2e.story.publish import Pushed
from tests.e2e.story.watch import Watch
from tests.unit.runtime import tiny

Json = dict[str, Any]
MODEL = "tiny"
WHERE = f"--namespace={settings.DEMO}"
CONFIG: Json = {**tiny.CONFIG, "model_type": "llama"}
ROLLOUT: Json = {
    "soak": {"minSeconds": 1, "maxSeconds": 60, "intervalSeconds": 0.5},
    "progressDeadlineSeconds": 120,
    "scaleDownDelaySeconds": 1,
    "drainTimeoutSeconds": 30,
}
SERVING: Json = {
    "maxNumSeqs": 4,
    "threads": 1,
    "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
}


@dataclass
class Bench:
    """One resource with a name of its own, and everything around it."""

    place: Place
    folder: Path
    test: str
    spoken: list[tuple[float, int | None, str | None]] = field(default_factory=list)
    """Every question to the Service: (Unix seconds, HTTP status, digest)."""

    def __post_init__(self) -> None:
        self.name = f"tiny-{hashlib.sha256(f'{self.test}{time.time()}'.encode()).hexdigest()[:8]}"
        self.kube = self.place.kube
        self.watch = Watch(self.kube, "modeldeployments", WHERE, f"--field-selector=metadata.name={self.name}")

    def __enter__(self) -> Self:
        self.watch.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.watch.__exit__(kind, error, at)
        self.kube.run("delete", "mdep", self.name, WHERE, "--ignore-not-found", "--timeout=70s", timeout_s=80)

    # --- models ---

    def push(self, version: str, seed: int = 0) -> Pushed:
        """A model of some 100 kB; another seed gives other weights."""
        folder = tiny.write(self.folder / version, tiny.tensors(seed=seed), CONFIG)
        return publish.push(self.place, folder, version, run=self.name, baselines={}, model=MODEL)

    def change_object(self, pushed: Pushed, path: str, change: Callable[[bytes], bytes]) -> None:
        """Put other bytes where one of the model's files is."""
        key = f"{pushed.uri.removeprefix(f's3://{settings.BUCKET}/')}/{path}"
        storage = bucket.client(self.place)

        def put() -> None:
            answer = storage.get_object(settings.BUCKET, key)
            try:
                content = change(answer.read())
            finally:
                answer.close()
                answer.release_conn()
            storage.put_object(settings.BUCKET, key, io.BytesIO(content), len(content))

        bucket.inside(self.place, put)

    # --- the resource ---

    def resource(self, pushed: Pushed, **changes: Any) -> Json:
        """The resource that asks for this model; `changes` are fields of its spec."""
        rendered = publish.render(self.place, pushed, self.name)
        asked = objects.asked(rendered, serving=SERVING, rollout=ROLLOUT)
        asked["spec"] |= changes
        return asked

    def apply(self, resource: Json) -> float:
        """Apply it; when that was."""
        at = time.time()
        self.kube.apply(resource)
        return at

    def ask(self, pushed: Pushed, **changes: Any) -> float:
        """Ask for this model; when that was."""
        return self.apply(self.resource(pushed, **changes))

    def status(self) -> Json:
        """The resource's status now."""
        found: Json = self.kube.get("mdep", self.name, WHERE).get("status", {})
        return found

    def until(self, wanted: Callable[[Json], bool], within_s: float, since: float = 0.0) -> Seen:
        """The first sight of such a status; the test fails if there is none in time."""
        seen = self.watch.wait(lambda one: wanted(one.get("status") or {}), since, within_s)
        assert seen is not None, f"not within {within_s:g} s; {self._last()}"
        return seen

    def _last(self) -> str:
        """The last status in some lines: what it says first, as a log may be cut, and all of it at the end."""
        status = self.status()
        said = [
            f"{one['type']} {one['status']} {one['reason']}: {one['message']}" for one in status.get("conditions", ())
        ]
        return "\n".join([f"phase {status.get('phase')}", *said, "all of it:", json.dumps(status, indent=1)])

    def until_ended(self, pushed: Pushed, since: float, within_s: float = 90) -> Json:
        """The status in which this model's attempt is decided."""

        def ended(status: Json) -> bool:
            attempt = status.get("attempt") or {}
            return attempt.get("digest") == pushed.digest and bool(attempt.get("endedAt"))

        found: Json = self.until(ended, within_s, since).object["status"]
        return found

    def serve(self, version: str = "1", **changes: Any) -> Pushed:
        """A first version that serves; `changes` are fields of its spec."""
        pushed = self.push(version)
        status = self.until_ended(pushed, self.ask(pushed, **changes))
        assert status["active"]["digest"] == pushed.digest
        return pushed

    def children(self) -> list[str]:
        """KIND/NAME of everything in the namespace that belongs to the resource."""
        kinds = "deployments,replicasets,pods,services,endpointslices,poddisruptionbudgets,networkpolicies"
        found = self.kube.items(kinds, WHERE)
        return sorted(f"{one['kind']}/{one['metadata']['name']}" for one in found if self._owns(one))

    def _owns(self, one: Json) -> bool:
        labels = one["metadata"].get("labels", {})
        return self.name in (labels.get(Label.RESOURCE), labels.get(Label.INSTANCE)) or one["metadata"][
            "name"
        ].startswith(f"{self.name}-")

    def events(self) -> list[Json]:
        """What was told about the resource."""
        found = self.kube.items("events.events.k8s.io", WHERE)
        return [one for one in found if one.get("regarding", {}).get("name") == self.name]

    def selected(self) -> str:
        """The colour that the Service selects."""
        return str(self.kube.get("service", self.name, WHERE)["spec"]["selector"].get(Label.COLOUR))

    # --- the Service ---

    @contextmanager
    def speaking(self, per_second: float = 5.0) -> Iterator[None]:
        """Questions to the Service from a thread, each on a connection of its own, for as long as the block runs."""
        address = self.kube.get("service", self.name, WHERE)["spec"]["clusterIP"]
        url = f"http://{address}/v1/completions"
        body = json.dumps({"model": MODEL, "prompt": "abc", "max_tokens": 2, "temperature": 0}).encode()
        over = threading.Event()

        def speak() -> None:
            while not over.wait(1 / per_second):
                self.spoken.append((time.time(), *_ask(url, body)))

        thread = threading.Thread(target=lambda: bucket.inside(self.place, speak), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(timeout=30)


def _ask(url: str, body: bytes) -> tuple[int | None, str | None]:
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            answer.read()
            return answer.status, answer.headers.get("x-model-digest")
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("x-model-digest")
    except OSError:
        return None, None
