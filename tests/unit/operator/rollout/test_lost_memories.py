"""The status was wiped: what the Service and the Deployments still say is enough to go on."""

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, ModelDeploymentStatus, Phase

from .world import World, digest, serving

LONG = {"minSeconds": 30, "maxSeconds": 120}


def wiped(world: World) -> World:
    world.status = ModelDeploymentStatus()
    return world


def soaking() -> World:
    world = serving("a")
    world.ask("b", soak=LONG)
    return world.until(Phase.SOAKING).run(3)


def test_a_soak_goes_on_with_the_same_attempt_and_its_previous_colour_kept_warm() -> None:
    world = soaking()
    before = world.attempt.id
    wiped(world).run(2)
    assert (world.status.phase, world.attempt.id) == (Phase.SOAKING, before)
    assert world.attempt.limits
    assert world.pods_of == {Colour.BLUE: 1, Colour.GREEN: 1}
    world.run(60)
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.VERIFIED)
    assert world.status.history[-1].recipe is not None


def test_a_breach_after_the_loss_still_goes_back() -> None:
    world = soaking()
    wiped(world).run(2)
    world.model("b").slow = 0.5
    world.run(30)
    assert (world.live_digest(), [r.digest for r in world.status.rejected]) == (digest("a"), [digest("b")])


def test_a_rejection_is_remembered_by_the_last_flip_and_the_losing_deployment() -> None:
    world = serving("a")
    world.model("b").slow = 0.5
    world.ask("b")
    world.until(Phase.ROLLING_BACK).run(40)
    before = world.status.rejected
    wiped(world).run(60)
    assert [(r.digest, r.reason, r.metric, r.limit) for r in world.status.rejected] == [
        (r.digest, r.reason, r.metric, r.limit) for r in before
    ]
    assert world.live_digest() == digest("a")
    assert world.pods_of == {Colour.BLUE: 1, Colour.GREEN: 0}


def test_what_served_at_rest_is_soaked_anew_and_then_known_again() -> None:
    world = serving("a")
    wiped(world).run(1)
    assert (world.status.phase, world.live_digest()) == (Phase.SOAKING, digest("a"))
    world.run(30)
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.VERIFIED)
    assert world.status.history[-1].limits
    world.model("b").slow = 0.5
    world.ask("b")
    world.run(60)
    assert world.live_digest() == digest("a")


def test_a_new_attempt_after_the_loss_gets_a_name_that_none_had() -> None:
    world = serving("a")
    world.ask("b")
    world.run(40)
    names = {live.attempt for live in world.deployments.values()}
    wiped(world).run(30)
    world.ask("c")
    world.run(40)
    assert world.attempt.id.endswith("-3")
    assert world.attempt.id not in names
    assert world.live_digest() == digest("c")


@pytest.mark.parametrize("has_limits", [True, False])
def test_a_loss_in_the_soak_of_a_model_without_baselines_ends_it_unjudged(has_limits: bool) -> None:
    world = World(spec=serving("a").spec)
    world.model("a").has_limits = has_limits
    world.until(Phase.SOAKING)
    wiped(world).run(90)
    expected = Reason.VERIFIED if has_limits else Reason.NO_BASELINES
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, expected)


def test_a_loss_again_and_again_ends_in_rest_as_soon_as_it_stops() -> None:
    world = soaking()
    for _ in range(8):
        wiped(world).run(2)
        assert world.ready_behind_service[-1] == 1
    world.run(90)
    assert (world.status.phase, world.live_digest()) == (Phase.SERVING, digest("b"))
    assert world.pods_of == {Colour.BLUE: 0, Colour.GREEN: 1}
