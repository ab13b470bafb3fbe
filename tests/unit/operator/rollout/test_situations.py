"""Situations of a rollout that no other story of these tests tells."""

import pytest
from backstay_contract.mode import Mode
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, Phase

from .world import World, digest, serving


def unhealthy() -> World:
    """The active pods of a are not ready any more, and b is asked for."""
    world = serving("a")
    world.unready_pods = set(world.deployments[Colour.BLUE].born)
    world.ask("b", soak={"minSeconds": 20, "maxSeconds": 60})
    return world.until(Phase.SOAKING)


@pytest.mark.case("S08", "R75")
def test_a_healthy_candidate_is_promoted_over_an_unhealthy_active_colour_and_says_so() -> None:
    world = unhealthy()
    assert (world.live_digest(), world.ready_behind_service[-1]) == (digest("b"), 1)
    assert any(event.reason == Reason.ACTIVE_UNHEALTHY for event in world.events.values())
    world.run(40)
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.VERIFIED)


@pytest.mark.case("S08", "S09")
def test_it_is_judged_by_its_own_limits_and_not_sent_back_to_dead_pods() -> None:
    world = unhealthy()
    world.model("b").slow = 0.5
    world.run(40)
    assert (world.status.phase, world.status.reason) == (Phase.HELD, Reason.NO_PREVIOUS)
    assert world.live_digest() == digest("b")


@pytest.mark.case("S04")
def test_after_a_candidate_is_dropped_the_way_back_still_leads_to_the_verified_revision() -> None:
    world = serving("a")
    world.model("b").smoke = "hangs"
    world.ask("b")
    world.until(Phase.CHECKING)
    world.model("c").slow = 0.5
    world.ask("c")
    world.run(60)
    assert (world.live_digest(), [r.digest for r in world.status.rejected]) == (digest("a"), [digest("c")])
    assert [(h.digest, h.verified) for h in world.status.history] == [(digest("a"), True)]


@pytest.mark.case("S13", "R26")
def test_a_rejected_digest_is_not_tried_again_after_a_restart() -> None:
    world = serving("a")
    world.model("b").slow = 0.5
    world.ask("b")
    world.until(Phase.ROLLING_BACK).run(40)
    attempts = world.status.attempts
    world.restart()
    world.run(60)
    assert (world.status.attempts, world.live_digest()) == (attempts, digest("a"))


@pytest.mark.case("S21")
def test_the_losing_colour_is_told_to_stand_by_after_a_flip_and_after_a_way_back() -> None:
    world = serving("a")
    world.ask("b", soak={"minSeconds": 20, "maxSeconds": 60})
    world.until(Phase.SOAKING).run(1)
    assert {colour: plan.mode for colour, plan in world.passes[-1].colours.items()} == {
        Colour.BLUE: Mode.STANDBY,
        Colour.GREEN: Mode.NORMAL,
    }
    world.model("b").slow = 0.5
    world.until(Phase.ROLLING_BACK)
    world.turn()
    assert world.passes[-1].colours[Colour.GREEN].mode == Mode.STANDBY
    assert world.passes[-1].colours[Colour.BLUE].mode != Mode.STANDBY
