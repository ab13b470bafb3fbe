"""A pass that dies after any of its writes changes nothing in the end: also on each way of the decision tree."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, Phase
from backstay_operator.rollout.observation import FiringAlert, PodFailure

from .world import World, digest, serving

WATCH = {"intervalSeconds": 1, "roundSeconds": 600}


def rule(**fields: str) -> dict[str, Any]:
    return {"rules": [{"on": "p99LatencyMs", **fields}], "watch": WATCH}


def verified_twice(**rollback: Any) -> World:
    """Model b serves after a, both verified; a's pods are gone."""
    world = serving("a")
    world.ask("b", rollback={"watch": WATCH, **rollback})
    world.run(30)
    assert world.pods_of == {Colour.BLUE: 0, Colour.GREEN: 1}
    return world


def slow_way_back() -> World:
    world = verified_twice()
    world.model("b").slow = 0.9
    return world


def failing_way_back() -> World:
    world = slow_way_back()
    world.model("a").failure = PodFailure(Reason.MODEL_NOT_FOUND, "no such object", hard=True)
    return world


def degraded_at_rest() -> World:
    world = verified_twice(afterVerified="Degrade")
    world.model("b").slow = 0.9
    world.model("a").slow = 0.0
    return world


def held_at_rest() -> World:
    world = verified_twice(afterVerified="Hold")
    world.model("b").slow = 0.9
    return world


def alerted() -> World:
    world = verified_twice()
    world.alerts = (FiringAlert("f1", "Bad", digest("b"), "answers are rude", world.now),)
    return world


def further_back() -> World:
    """Rule: to the last verified revision, a; b, unverified, is kept warm while c breaches."""
    world = serving("a")
    world.requests_per_second = 1
    world.ask("b", soak={"maxSeconds": 8})
    world.run(30)
    world.requests_per_second = 200
    world.model("c").slow = 0.5
    world.ask("c", rollback=rule(to="LastVerified", mode="Degraded"))
    return world


def degraded_in_the_soak() -> World:
    world = serving("a")
    world.model("b").slow = 0.5
    world.ask("b", rollback=rule(do="Degrade"))
    return world


def back_in_degraded_mode() -> World:
    world = serving("a")
    world.model("b").slow = 0.5
    world.ask("b", rollback=rule(mode="Degraded"))
    return world


def without_a_previous_colour() -> World:
    world = serving("a")
    world.model("b").slow = 0.5
    world.ask("b", rollback=rule(mode="Degraded"))
    world.until(Phase.SOAKING)
    del world.deployments[Colour.BLUE]
    return world


SCENARIOS: dict[str, Callable[[], World]] = {
    "a slow way back": slow_way_back,
    "a slow way back that fails": failing_way_back,
    "degraded at rest, in vain": degraded_at_rest,
    "held at rest": held_at_rest,
    "an alert": alerted,
    "to the last verified": further_back,
    "degraded in the soak, in vain": degraded_in_the_soak,
    "back in degraded mode": back_in_degraded_mode,
    "without a previous colour": without_a_previous_colour,
}
SECONDS = 60


def ending(world: World) -> tuple[object, ...]:
    status = world.status
    return (
        world.live_digest(),
        world.pods_of,
        status.phase,
        status.reason,
        status.returning,
        status.degraded.revision if status.degraded else None,
        sorted((r.digest, r.reason, r.metric) for r in status.rejected),
        sorted((h.digest, h.verified, h.reason) for h in status.history),
        [(c.type, c.status) for c in status.conditions if c.type in ("Degraded", "Verified", "Ready")],
    )


@pytest.mark.case("S07")
@pytest.mark.parametrize("name", SCENARIOS)
def test_each_way_killed_at_each_write_ends_as_the_undisturbed_one(name: str) -> None:
    begin = SCENARIOS[name]()
    begin.writes, begin.passes, begin.ready_behind_service = 0, [], []
    undisturbed = copy.deepcopy(begin).run(SECONDS, step=1.0)
    for point in range(1, undisturbed.writes + 1):
        killed = copy.deepcopy(begin)
        killed.die_at = point
        killed.run(SECONDS, step=1.0)
        assert ending(killed) == ending(undisturbed), f"killed at write {point} of {undisturbed.writes}"
        assert min(killed.ready_behind_service) >= 1
