"""While the stored spec is not valid: judged on, the way back open, and nothing goes forward."""

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import Colour, ModelDeploymentStatus, Phase
from backstay_operator.rollout.observation import PodFailure
from backstay_operator.rollout.stand_in import stand_in

from .world import World, digest, serving

KNOWN = pytest.mark.parametrize("known", [True, False], ids=["the spec before is known", "after a restart"])


def soaking() -> World:
    world = serving("a", replicas=2)
    world.ask("b", replicas=2, soak={"minSeconds": 5, "maxSeconds": 20})
    return world.until(Phase.SOAKING)


def spoil(world: World, known: bool) -> ModelDeploymentSpec:
    spec = stand_in(world.spec if known else None, world.status)
    assert spec is not None
    world.spec = spec
    return spec


@pytest.mark.case("T10")
@KNOWN
def test_a_breach_still_goes_back_and_rejects(known: bool) -> None:
    world = soaking()
    spoil(world, known)
    world.model("b").slow = 0.5
    world.run(30)
    assert (world.live_digest(), [r.digest for r in world.status.rejected]) == (digest("a"), [digest("b")])


@KNOWN
def test_pods_that_die_still_go_back(known: bool) -> None:
    world = soaking()
    spoil(world, known)
    world.model("b").failure = PodFailure(Reason.OOM_KILLED, "killed for memory", hard=True)
    world.run(2)
    assert world.live_digest() == digest("a")


@KNOWN
def test_the_soak_is_judged_on_and_does_not_end(known: bool) -> None:
    world = soaking()
    spoil(world, known)
    before = world.attempt.evidence[0].n
    world.run(60)
    assert world.attempt.evidence[0].n > before
    assert (world.status.phase, world.status.reason) == (Phase.SOAKING, Reason.PAUSED)
    assert world.pods_of == {Colour.BLUE: 2, Colour.GREEN: 2}


@KNOWN
def test_a_candidate_is_not_flipped_to(known: bool) -> None:
    world = serving("a")
    world.ask("b")
    world.until(Phase.STARTING)
    spoil(world, known)
    world.run(30)
    assert world.live_digest() == digest("a")
    assert not world.status.rejected


@KNOWN
def test_what_serves_at_rest_stays_as_it_is_and_nothing_is_written(known: bool) -> None:
    world = serving("a", replicas=3)
    spoil(world, known)
    world.run(3)
    before, deployments = world.writes, dict(world.deployments)
    world.run(60)
    assert (world.writes, world.deployments) == (before, deployments)
    assert world.pods_of == {Colour.BLUE: 3}


def test_where_not_even_the_status_knows_what_was_asked_for_there_is_nothing_to_go_on_with() -> None:
    assert stand_in(None, ModelDeploymentStatus()) is None


def test_the_last_valid_spec_keeps_its_own_settings() -> None:
    world = soaking()
    spec = stand_in(world.spec, world.status)
    assert spec is not None
    assert spec.rollout.paused
    assert spec.rollout.with_(paused=False) == world.spec.rollout
