"""The watch after the soak, in the shell: whom it asks, when, and what it keeps between two passes."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from backstay_contract.evidence import EvidenceSource
from backstay_contract.metric import MetricName
from backstay_contract.names import Annotation, Label, RuntimeMetric
from backstay_contract.resource import ModelDeploymentSpec, parse_spec
from backstay_contract.status import (
    Attempt,
    Colour,
    Degraded,
    HistoryEntry,
    MetricLimit,
    ModelDeploymentStatus,
    Phase,
    Side,
)
from backstay_operator import kinds
from backstay_operator.desired import services
from backstay_operator.desired.common import Owner, pod_selector
from backstay_operator.desired.deployment import deployment
from backstay_operator.http import Answer
from backstay_operator.observe.observe import Observer
from backstay_operator.rollout import revision
from backstay_operator.rollout.observation import WatchRound
from backstay_operator.settings import Settings

Json = dict[str, Any]
OWNER = Owner("prod", "chat", "uid-1")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTINGS = Settings(runtime_image="runtime:1", control_key=b"0123456789abcdef")
LIMIT = MetricLimit(metric=MetricName.P99_LATENCY, limit=500.0)
ADDRESSES = {"blue": "10.0.0.1", "green": "10.0.0.2"}


class Shell:
    """An observer and a cluster in which blue serves."""

    def __init__(self, api: Any, http: Any, spec: ModelDeploymentSpec) -> None:
        self.api, self.http, self.spec = api, http, spec
        self.build = revision.of_spec(spec, "runtime:1", ())
        self.observer = Observer(api, http, SETTINGS)
        service = services.active(OWNER)
        service["spec"]["selector"] = pod_selector(OWNER, "blue")
        api.put(kinds.SERVICE, service)
        self.up("blue")

    def up(self, colour: str) -> None:
        body = deployment(OWNER, self.spec, Colour(colour), self.build, attempt="r-1", replicas=1, token_hash="h")
        self.api.put(kinds.DEPLOYMENT, body)
        pod = {
            "metadata": {
                "name": f"chat-{colour}-1",
                "namespace": "prod",
                "labels": OWNER.labels() | {Label.COLOUR: colour},
                "annotations": {Annotation.ATTEMPT: "r-1"},
            },
            "status": {"podIP": ADDRESSES[colour], "conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.api.put(kinds.POD, pod)

    def resting(self, **changes: Any) -> ModelDeploymentStatus:
        build = self.build
        entry = HistoryEntry(
            revision=build.revision,
            digest=build.digest,
            version=build.version,
            image=build.image,
            verified=True,
            reason="Verified",
            at=NOON,
            recipe=build.recipe,
            limits=(LIMIT,),
        )
        active = Side(
            colour=Colour.BLUE, version=build.version, digest=build.digest, revision=build.revision, ready=1, replicas=1
        )
        return ModelDeploymentStatus(phase=Phase.SERVING, active=active, history=(entry,), attempts=1).with_(**changes)

    async def asked(self, status: ModelDeploymentStatus, at: float = 0.0) -> list[str]:
        """Addresses asked by a pass so many seconds after noon."""
        self.http.requests.clear()
        now = NOON + timedelta(seconds=at)
        self.seen = await self.observer.observe(OWNER, self.spec, status, now, lambda: None)
        return sorted(url.split("/", 2)[2] for _, url, _ in self.http.requests)

    def says(self, mode: str) -> None:
        """What the pods answer when they are asked for their mode."""
        body = json.dumps({"mode": mode, "inFlight": 0, "ready": True}).encode()
        self.http.answer("GET", "/control/state$", Answer(200, {}, body))

    def next_look(self, status: ModelDeploymentStatus, at: float) -> float | None:
        return self.observer.next_look(OWNER.uid, self.spec, status, NOON + timedelta(seconds=at))


@pytest.fixture
def shell(api: Any, http: Any, stored: Json) -> Shell:
    return Shell(api, http, parse_spec(stored["spec"]))


LOOK = ["10.0.0.1:8000/metrics", "10.0.0.1:8081/control/state"]


async def test_at_rest_the_active_pods_are_looked_at_once_in_an_interval(shell: Shell) -> None:
    resting = shell.resting()
    assert await shell.asked(resting) == LOOK
    assert await shell.asked(resting, at=10) == []
    assert shell.seen.observation.look is None
    assert shell.next_look(resting, at=10) == 20.0
    assert await shell.asked(resting, at=29) == LOOK


async def test_the_watch_asks_for_modes_until_all_pods_said_that_they_answer_as_usual(shell: Shell) -> None:
    resting = shell.resting()
    assert await shell.asked(resting) == LOOK  # there was no answer
    shell.says("standby")
    assert await shell.asked(resting, at=60) == LOOK
    assert await shell.asked(resting, at=120) == LOOK
    shell.says("normal")
    assert await shell.asked(resting, at=180) == LOOK
    assert await shell.asked(resting, at=240) == LOOK[:1]


async def test_what_was_cut_is_asked_for_again_when_that_is_over(shell: Shell) -> None:
    resting = shell.resting()
    shell.says("normal")
    await shell.asked(resting)
    cut = resting.with_(degraded=Degraded(revision=shell.build.revision, reason="Breach", since=NOON))
    assert await shell.asked(cut, at=60) == LOOK
    shell.says("degraded")
    assert await shell.asked(resting, at=120) == LOOK
    shell.says("normal")
    assert await shell.asked(resting, at=180) == LOOK
    assert await shell.asked(resting, at=240) == LOOK[:1]


def soaking(shell: Shell) -> Attempt:
    """An attempt that was flipped to at noon."""
    build = shell.build
    return Attempt(
        id="r-1",
        revision=build.revision,
        digest=build.digest,
        version=build.version,
        colour=Colour.BLUE,
        image=build.image,
        started_at=NOON,
        smoke_passed_at=NOON,
        switched_at=NOON,
        limits=(LIMIT,),
    )


async def test_a_look_after_a_soak_is_not_put_off_by_the_soaks_last_one(shell: Shell) -> None:
    attempt = soaking(shell)
    await shell.asked(shell.resting(phase=Phase.SOAKING, attempt=attempt))
    ended = attempt.with_(ended_at=NOON, outcome="Verified")
    assert await shell.asked(shell.resting(attempt=ended), at=1) == LOOK


@pytest.mark.parametrize("how", ["Ignore", "no limits"])
async def test_what_is_not_watched_is_not_asked(shell: Shell, how: str) -> None:
    resting = shell.resting()
    if how == "Ignore":
        rollback = {"afterVerified": "Ignore"}
        shell.spec = parse_spec({**shell.spec.to_json(), "rollback": rollback})
    else:
        resting = shell.resting(history=tuple(h.with_(limits=()) for h in resting.history))
    assert await shell.asked(resting) == []
    assert shell.next_look(resting, at=0) is None


async def test_pods_of_a_degraded_revision_are_asked_for_their_mode_in_each_pass(shell: Shell) -> None:
    degraded = Degraded(revision=shell.build.revision, reason="Breach", since=NOON)
    resting = shell.resting(degraded=degraded)
    await shell.asked(resting)
    assert await shell.asked(resting, at=5) == LOOK[1:]


async def test_in_the_soak_the_previous_colour_is_looked_at_beside_the_new_one(shell: Shell) -> None:
    shell.up("green")
    attempt = soaking(shell)
    asked = await shell.asked(shell.resting(phase=Phase.SOAKING, attempt=attempt))
    assert [one for one in asked if one.endswith("/metrics")] == ["10.0.0.1:8000/metrics", "10.0.0.2:8000/metrics"]
    assert shell.seen.observation.previous_look is not None
    assert (await shell.asked(shell.resting(phase=Phase.SOAKING, attempt=attempt), at=0.1)) != asked
    assert shell.seen.observation.previous_look is None


@pytest.mark.parametrize(
    ("source", "switched", "asked"),
    [
        ("Auto", False, EvidenceSource.PODS),
        ("Auto", True, EvidenceSource.PROMETHEUS),
        ("Prometheus", False, EvidenceSource.PROMETHEUS),
    ],
)
async def test_until_the_flip_the_previous_colour_itself_is_asked_for_all_that_it_has_served_by_then(
    api: Any, http: Any, stored: Json, source: str, switched: bool, asked: EvidenceSource
) -> None:
    stored["spec"]["rollout"] = {"metrics": {"source": source}}
    shell = Shell(api, http, parse_spec(stored["spec"]))
    shell.observer = Observer(api, http, replace(SETTINGS, prometheus_url="http://prometheus:9090"))
    shell.up("green")
    attempt = soaking(shell).with_(switched_at=NOON if switched else None)
    names = [{"__name__": RuntimeMetric.FINISHED, "pod": f"chat-{colour}-1"} for colour in ADDRESSES]
    found = [{"metric": name, "values": [[time.time(), "1"]]} for name in names]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": found}}
    http.answer("POST", "prometheus:9090", Answer(200, {}, json.dumps(answer).encode()))
    http.answer("GET", "/metrics$", Answer(200, {}, b"# EOF\n"))
    phase = Phase.SOAKING if switched else Phase.CHECKING
    await shell.asked(shell.resting(phase=phase, attempt=attempt))
    seen = shell.seen.observation
    assert seen.previous_look is not None
    assert seen.look is not None
    assert (seen.previous_look.source, seen.look.source) == (asked, EvidenceSource.PROMETHEUS)


async def test_the_watch_is_kept_from_pass_to_pass_and_forgotten_with_the_resource(shell: Shell) -> None:
    resting, watch = shell.resting(), WatchRound("r-1", False, NOON)
    shell.observer.remember(OWNER.uid, watch)
    await shell.asked(resting)
    assert shell.seen.observation.watch == watch
    shell.observer.remember(OWNER.uid, None)
    await shell.asked(resting)
    assert shell.seen.observation.watch is None
    shell.observer.remember(OWNER.uid, watch)
    shell.observer.forget(OWNER.uid)
    await shell.asked(resting)
    assert shell.seen.observation.watch is None
