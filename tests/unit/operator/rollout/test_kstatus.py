"""How tools that know kstatus, and nothing of models, see a resource."""

import pytest
from backstay_contract.status import Phase
from hypothesis import given, settings
from hypothesis import strategies as st

from .world import World, serving

pytestmark = pytest.mark.case("T20")


def standing(world: World) -> set[str]:
    """Which of the two conditions are there; they are True whenever they are."""
    found = [one for one in world.status.conditions if one.type in ("Reconciling", "Stalled")]
    assert all(one.status == "True" for one in found)
    return {one.type for one in found}


def test_a_rollout_is_reconciling_until_its_verdict_and_rest_is_neither() -> None:
    world = World()
    world.turn()
    assert standing(world) == {"Reconciling"}
    world = serving("a")
    world.run(20)
    assert standing(world) == set()
    world.ask("b")
    for phase in (Phase.STARTING, Phase.SOAKING):
        assert standing(world.until(phase)) == {"Reconciling"}


def test_a_rejected_digest_is_stalled_until_something_else_is_asked_for() -> None:
    world = serving("a")
    world.model("b").slow = 0.5
    world.ask("b")
    world.until(Phase.ROLLING_BACK)
    assert standing(world.run(40)) == {"Stalled"}
    world.ask("a")
    assert standing(world.run(10)) == set()


def test_a_first_revision_that_fails_is_stalled() -> None:
    world = World()
    world.model("a").smoke = "wrong"
    world.until(Phase.FAILED)
    assert standing(world) == {"Stalled"}


def test_a_paused_change_is_still_to_be_reconciled() -> None:
    world = serving("a")
    world.run(20)
    world.ask("b", rollout={"paused": True})
    assert standing(world.run(5)) == {"Reconciling"}


def test_a_pod_that_is_missing_is_reconciling() -> None:
    world = serving("a")
    world.run(20)
    world.ask("a", replicas=3)
    world.turn()
    world.turn()
    assert standing(world) == {"Reconciling"}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0.5, 20)), max_size=4))
def test_never_both(story: list[tuple[str, bool, float]]) -> None:
    world = serving("a")
    world.model("c").slow = 0.5
    for model, paused, seconds in story:
        world.ask(model, rollout={"paused": paused})
        world.run(seconds)
        assert len(standing(world)) <= 1
