"""From the first deployment to a verified second revision."""

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import Colour, Phase

from .world import LIMIT_MS, World, digest, serving, spec


def test_the_first_deployment_serves_only_after_its_checks() -> None:
    world = World()
    world.run(1)
    assert world.selector is None
    world.until(Phase.SOAKING)
    assert world.live_digest() == digest("a")


def test_a_model_that_holds_its_baselines_is_verified() -> None:
    world = serving("a")
    assert world.status.reason == Reason.VERIFIED
    assert world.status.history[-1].verified
    assert world.attempt.limits[0].limit == LIMIT_MS


@pytest.mark.case("R33", "R2")
def test_a_second_revision_takes_the_other_colour_and_the_first_goes_after_its_delay() -> None:
    world = serving("a")
    world.ask("b")
    world.until(Phase.SOAKING)
    assert world.pods_of == {Colour.BLUE: 1, Colour.GREEN: 1}
    world.run(30)
    assert world.status.reason == Reason.VERIFIED
    assert world.live_digest() == digest("b")
    assert world.pods_of == {Colour.BLUE: 0, Colour.GREEN: 1}


@pytest.mark.case("R17", "T04")
def test_the_service_selects_the_candidate_only_while_it_is_ready() -> None:
    world = serving("a")
    world.ask("b")
    world.model("b").seconds_to_ready = 10
    world.run(9)
    assert world.live_digest() == digest("a")
    world.run(20)
    assert world.live_digest() == digest("b")


@pytest.mark.case("R10")
def test_the_preview_selects_nothing_at_rest() -> None:
    world = serving("a")
    assert world.preview is None
    world.ask("b")
    world.until(Phase.CHECKING)
    assert world.preview is Colour.GREEN
    world.until(Phase.SOAKING)
    world.run(0.5)
    assert world.preview is None


@pytest.mark.case("R57")
def test_a_model_without_baselines_serves_and_says_that_nothing_was_judged() -> None:
    world = World(spec=spec("a", baselines={}))
    world.run(20)
    assert (world.status.phase, world.status.reason) == (Phase.SERVING, Reason.NO_BASELINES)
    assert not world.status.history[-1].verified


@pytest.mark.case("R51")
def test_too_few_requests_end_the_soak_as_insufficient_data_exactly_once() -> None:
    world = World(requests_per_second=1)
    world.run(120)
    assert world.status.reason == Reason.INSUFFICIENT_DATA
    assert sum(event.reason == Reason.INSUFFICIENT_DATA for event in world.events.values()) == 1


def test_at_rest_a_pass_writes_nothing_and_asks_for_no_other() -> None:
    world = serving("a")
    world.run(30)
    before = world.writes
    decision = world.turn()
    assert world.writes == before
    assert decision.look_again is None


def test_manual_promotion_waits_for_the_id_of_this_attempt() -> None:
    world = serving("a")
    world.ask("b", rollout={"promotion": "Manual", "promote": world.attempt.id})
    world.until(Phase.AWAITING_PROMOTION)
    world.run(20)
    assert world.live_digest() == digest("a")
    world.ask("b", rollout={"promotion": "Manual", "promote": world.attempt.id})
    world.run(5)
    assert world.live_digest() == digest("b")


@pytest.mark.case("R66")
def test_a_candidate_carries_at_once_what_the_active_colour_carries() -> None:
    world = serving("a", replicas=4)
    world.ask("b", replicas=2)
    world.until(Phase.SOAKING)
    assert world.pods_of == {Colour.BLUE: 4, Colour.GREEN: 4}
    world.run(40)
    assert world.pods_of == {Colour.BLUE: 0, Colour.GREEN: 2}


@pytest.mark.case("R69")
def test_a_replica_edit_is_no_rollout() -> None:
    world = serving("a")
    attempts = world.status.attempts
    world.ask("a", replicas=3)
    world.run(5)
    assert world.status.attempts == attempts
    assert world.pods_of[Colour.BLUE] == 3


@pytest.mark.case("T15")
def test_a_new_default_image_restarts_no_serving_pod() -> None:
    world = serving("a")
    world.default_image = "runtime:2"
    world.run(10)
    assert world.status.attempts == 1
    world.ask("b")
    world.run(30)
    assert world.deployments[Colour.GREEN].wanted.image == "runtime:2"


@pytest.mark.case("T12")
def test_no_room_is_said_and_the_rollout_goes_on_by_itself_when_there_is_some() -> None:
    world = serving("a")
    world.room = False
    world.ask("b")
    world.until(Phase.PENDING)
    world.run(100)
    assert world.status.reason == Reason.INSUFFICIENT_CAPACITY
    assert "Insufficient memory" in world.status.message
    world.room = True
    world.run(30)
    assert world.live_digest() == digest("b")


@pytest.mark.case("R31")
def test_three_specs_in_a_row_converge_on_the_last() -> None:
    world = serving("a")
    world.ask("b")
    world.run(1)
    world.ask("c")
    world.run(1)
    world.ask("d")
    world.run(60)
    assert world.live_digest() == digest("d")
    assert world.status.phase is Phase.SERVING


def test_a_third_revision_waits_for_the_verdict_on_the_second() -> None:
    world = serving("a")
    world.ask("b", soak={"minSeconds": 10})
    world.until(Phase.SOAKING)
    world.ask("c", soak={"minSeconds": 10})
    world.run(5)
    assert (world.status.reason, world.live_digest()) == (Reason.QUEUED, digest("b"))
    world.run(80)
    assert world.live_digest() == digest("c")
    assert [entry.digest for entry in world.status.history] == [digest("a"), digest("b"), digest("c")]
