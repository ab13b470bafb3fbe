"""Whatever people ask for in whatever order, clients lose nothing and the last wish comes to serve."""

import random
from collections.abc import Callable

import pytest
from backstay_contract.termination import GaveUp, Termination

from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import SHORT_SOAK, other, serving

pytestmark = pytest.mark.control_plane

GOOD = ("1.0.0", "1.1.0", "1.2.0")
SLOW, BROKEN, NEVER_READY = "2.0.0", "2.1.0", "2.2.0"
LAST = "9.0.0"
WISHES = 25


def hurried(story: Story, chance: random.Random) -> None:
    """One thing that somebody might do, without looking."""
    attempt = (story.status().get("attempt") or {}).get("id", "")
    history = [one["revision"] for one in story.status().get("history", ())]
    wishes: list[Callable[[], None]] = [
        lambda: story.ask_for(chance.choice((*GOOD, SLOW, BROKEN, NEVER_READY))),
        lambda: story.ask_for(chance.choice((*GOOD, SLOW, BROKEN, NEVER_READY))),
        lambda: story.ask_for(chance.choice(GOOD)),
        lambda: story.edit(replicas=chance.randint(1, 3)),
        lambda: story.annotate(note=str(chance.random())),
        lambda: story.edit(rollout={"retryToken": str(chance.randint(0, 9))}),
        lambda: story.edit(rollout={"abort": attempt}),
        lambda: story.edit(rollout={"promotion": chance.choice(("Automatic", "Manual")), "promote": attempt}),
        lambda: story.edit(rollout={"paused": chance.random() < 0.5}),
        lambda: story.edit(rollout={"rollbackTo": chance.choice((*history, ""))}),
        lambda: story.edit(rollout={"whenSpecChangesInSoak": chance.choice(("Queue", "Supersede"))}),
    ]
    chance.choice(wishes)()


@pytest.mark.case("R1", "R3", "R31", "T01", "T10")
@pytest.mark.parametrize("seed", [1, 2])
def test_after_any_wishes_in_any_order_the_last_one_serves_and_no_request_was_lost(story: Story, seed: int) -> None:
    chance = random.Random(seed)
    said = Termination(reason=GaveUp.DIGEST_MISMATCH, message="a byte differs", path="x", expected="aa", actual="bb")
    story.behave(SLOW, slow=0.5)
    story.behave(BROKEN, gives_up=said)
    story.behave(NEVER_READY, unready=True)
    with story.traffic() as traffic:
        serving(story, replicas=2)
        for _ in range(WISHES):
            hurried(story, chance)
            story.pause(chance.choice((0.05, 0.3, 1.0, 2.0)))
        story.ask_for(LAST)
        story.edit(
            replicas=2,
            rollout={"paused": False, "promotion": "Automatic", "rollbackTo": "", "abort": "", "soak": SHORT_SOAK},
        )
        status = story.wait_until_serving(LAST, 90)
        story.wait_until_at_rest(60)
        story.wait("both pods", lambda: story.status()["readyReplicas"] == 2)
    assert None not in traffic.selectors
    assert traffic.lost == 0
    assert (story.replicas(story.selector()), story.replicas(other(story.selector()))) == (2, 0)
    assert {one["version"] for one in status["history"]} <= {*GOOD, SLOW, LAST}
    assert BROKEN not in traffic.versions
    assert NEVER_READY not in traffic.versions
