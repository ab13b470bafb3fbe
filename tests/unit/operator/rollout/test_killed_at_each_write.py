"""A pass that dies after any of its writes changes nothing in the end."""

import re
from collections.abc import Callable

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour
from backstay_operator.rollout.observation import PodFailure

from .world import World, serving


def forward() -> World:
    return serving("a")


def slow() -> World:
    world = serving("a")
    world.model("b").slow = 0.5
    return world


def broken() -> World:
    world = serving("a")
    world.model("b").failure = PodFailure(Reason.DIGEST_MISMATCH, "expected x, found y", hard=True)
    return world


def dying() -> World:
    world = serving("a")
    world.model("b").fails_after = 3.0
    return world


SCENARIOS = {"a good model": forward, "a slow one": slow, "a broken one": broken, "a dying one": dying}


def ending(world: World) -> tuple[object, ...]:
    status = world.status
    return (
        world.live_digest(),
        world.pods_of,
        world.preview,
        status.phase,
        status.reason,
        [(r.digest, r.reason, r.metric) for r in status.rejected],
        [(h.digest, h.verified) for h in status.history],
    )


def rollout(begin: Callable[[], World], die_at: int | None) -> World:
    world = begin()
    world.writes, world.die_at = 0, die_at
    world.ask("b")
    return world.run(80)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_whole_rollout_killed_at_each_write_ends_as_the_undisturbed_one(name: str) -> None:
    undisturbed = rollout(SCENARIOS[name], None)
    # Evidence grows while nobody looks, so a killed pass may need one look more: the writes of the soak vary.
    assert undisturbed.writes > 4
    for point in range(1, undisturbed.writes + 1):
        killed = rollout(SCENARIOS[name], point)
        assert ending(killed) == ending(undisturbed), f"killed at write {point} of {undisturbed.writes}"


def fixing() -> World:
    world = serving("a")
    world.model("a").fails_after = 0.0
    return world


def told(world: World) -> set[str]:
    """What people heard of; at rest a step's time is a part of its name."""
    return {re.sub(r"^(rest\..+)\.\d+$", r"\1", name) for name in world.events}


@pytest.mark.parametrize("begin", [*SCENARIOS.values(), fixing])
def test_a_killed_pass_tells_nothing_that_the_undisturbed_ones_do_not(begin: Callable[[], World]) -> None:
    undisturbed = rollout(begin, None)
    for point in range(1, undisturbed.writes + 1):
        strange = told(rollout(begin, point)) - told(undisturbed)
        assert not strange, f"killed at write {point} of {undisturbed.writes}"


def test_a_first_deployment_killed_at_each_write_ends_as_the_undisturbed_one() -> None:
    undisturbed = World().run(60)
    for point in range(1, undisturbed.writes + 1):
        assert ending(World(die_at=point).run(60)) == ending(undisturbed), f"killed at write {point}"


@pytest.mark.case("R1", "R3")
def test_a_kill_never_leaves_the_service_without_a_ready_endpoint() -> None:
    total = rollout(slow, None).writes
    for point in range(1, total + 1):
        world = slow()
        begin = len(world.ready_behind_service)
        world.writes, world.die_at = 0, point
        world.ask("b")
        world.run(80)
        assert min(world.ready_behind_service[begin:]) >= 1
        assert world.selector is Colour.BLUE
