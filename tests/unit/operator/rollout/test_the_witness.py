"""What the previous colour served before the flip is no witness, however rarely the shell looks."""

from dataclasses import replace
from datetime import datetime

import pytest
from backstay_contract.status import Phase
from backstay_operator.evidence import look
from backstay_operator.rollout.observation import Observation

from tests.unit.operator.rollout.world import World, serving


def looked_at_when_due(world: World) -> World:
    """The world, with looks only in the passes in which the observer makes them."""
    last: dict[str, datetime] = {}
    seen_by_all = world.observe

    def observe() -> Observation:
        seen, attempt = seen_by_all(), world.status.attempt
        of = attempt.id if attempt is not None and attempt.ended_at is None else "at rest"
        at = last.get(of)
        if (
            attempt is not None
            and attempt.smoke_passed_at is not None
            and at is not None
            and at < attempt.smoke_passed_at
        ):
            at = None
        if not look.is_due(world.spec, world.status, at, world.now):
            return replace(seen, look=None, previous_look=None)
        last[of] = world.now
        return seen

    world.observe = observe  # type: ignore[method-assign]
    return world


@pytest.mark.parametrize("promotion", ["Automatic", "Manual"])
def test_a_breach_is_gone_back_from_although_the_previous_colour_was_slow_before_the_flip(promotion: str) -> None:
    world = looked_at_when_due(serving("a", rollback={"afterVerified": "Ignore"}))
    world.model("a").slow = world.model("b").slow = 0.5
    world.run(10)
    soak, rollout = {"minSeconds": 60, "maxSeconds": 120}, {"promotion": promotion}
    world.ask("b", soak=soak, rollout=rollout)
    if promotion == "Manual":
        world.until(Phase.AWAITING_PROMOTION)
        world.run(20)
        assert world.attempt is not None
        world.ask("b", soak=soak, rollout={**rollout, "promote": world.attempt.id})
    world.until(Phase.SOAKING)
    world.until(Phase.ROLLING_BACK, Phase.HELD, seconds=60)
    assert world.status.phase is Phase.ROLLING_BACK
    assert world.status.attempt is not None
    assert sum(one.n for one in world.status.attempt.previous_evidence) == 0, "it served nothing after the flip"
