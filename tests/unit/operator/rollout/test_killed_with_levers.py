"""A pass that dies after any of its writes changes nothing in the end: also with levers, and without room."""

from collections.abc import Callable

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import Phase
from backstay_operator.rollout.observation import PodFailure

from .test_killed_at_each_write import ending
from .world import World, serving

LONG = {"minSeconds": 20, "maxSeconds": 120}
Begin = Callable[[int | None], World]


def crowded(die_at: int | None, **behaviour: object) -> World:
    world = serving("a")
    world.slots = 1
    for name, value in behaviour.items():
        setattr(world.model("b"), name, value)
    world.run(1)
    world.writes, world.die_at = 0, die_at
    return world


def recreated(die_at: int | None) -> World:
    world = crowded(die_at)
    world.ask("b", rollout={"strategy": "Recreate"})
    return world.run(80, step=1.0)


def recreated_and_failed(die_at: int | None) -> World:
    world = crowded(die_at, failure=PodFailure(Reason.DIGEST_MISMATCH, "expected x, found y", hard=True))
    world.ask("b", rollout={"strategy": "Recreate"})
    return world.run(80, step=1.0)


def recreated_and_breached(die_at: int | None) -> World:
    world = crowded(die_at, slow=0.5)
    world.ask("b", rollout={"strategy": "Recreate"})
    return world.run(120, step=1.0)


def without_room_first(die_at: int | None) -> World:
    world = crowded(die_at)
    world.ask("b")
    world.run(5)
    world.slots = 2
    return world.run(80, step=1.0)


def aborted_in_the_soak(die_at: int | None) -> World:
    world = serving("a")
    world.ask("b", soak=LONG)
    world.until(Phase.SOAKING)
    world.writes, world.die_at = 0, die_at
    world.ask("b", soak=LONG, rollout={"abort": world.attempt.id})
    return world.run(60, step=1.0)


def rolled_back_in_the_soak(die_at: int | None) -> World:
    world = serving("a")
    world.ask("b", soak=LONG)
    world.until(Phase.SOAKING)
    world.writes, world.die_at = 0, die_at
    world.ask("b", soak=LONG, rollout={"rollbackTo": world.status.history[0].revision})
    return world.run(60, step=1.0)


def rolled_back_to_an_older_one(die_at: int | None) -> World:
    world = serving("a")
    for letter in "bc":
        world.ask(letter)
        world.run(40)
    world.writes, world.die_at = 0, die_at
    world.ask("c", rollout={"rollbackTo": world.status.history[0].revision})
    return world.run(80, step=1.0)


def paused_and_resumed(die_at: int | None) -> World:
    world = serving("a")
    world.writes, world.die_at = 0, die_at
    world.ask("b")
    world.run(1)
    world.ask("b", rollout={"paused": True})
    world.run(20)
    world.ask("b")
    return world.run(60, step=1.0)


SCENARIOS: tuple[Begin, ...] = (
    recreated,
    recreated_and_failed,
    recreated_and_breached,
    without_room_first,
    aborted_in_the_soak,
    rolled_back_in_the_soak,
    rolled_back_to_an_older_one,
    paused_and_resumed,
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_levers_and_missing_room_end_as_undisturbed_whichever_write_was_the_last(scenario: Begin) -> None:
    undisturbed = scenario(None)
    assert undisturbed.writes > 2
    for point in range(1, undisturbed.writes + 1):
        killed = scenario(point)
        assert ending(killed) == ending(undisturbed), f"killed at write {point} of {undisturbed.writes}"
        selected = [colour is not None for colour in killed.selectors]
        assert selected == sorted(selected)
        assert killed.spec.rollout.strategy != "Recreate" or one_colour_at_a_time(killed)


def one_colour_at_a_time(world: World) -> bool:
    """No pass with an open attempt asked for pods of both colours."""
    while_open = [d for d in world.passes if d.status.attempt and d.status.attempt.ended_at is None]
    return all(sum(plan.replicas > 0 for plan in d.colours.values()) <= 1 for d in while_open)
