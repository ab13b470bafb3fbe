"""A model that has become worse on its own evaluation set, before the flip and after it."""

import pytest

from tests.integration.harness.fake_runtime import RECORDED_PERPLEXITY
from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import behave_now, serving, soaking

pytestmark = pytest.mark.control_plane


def test_a_candidate_beyond_its_limit_is_rejected_before_the_flip_with_the_numbers(story: Story) -> None:
    story.behave("1.1.0", perplexity=2 * RECORDED_PERPLEXITY)
    with story.traffic() as traffic:
        active = serving(story)
        story.ask_for("1.1.0")
        entry = story.wait_until_rejected("1.1.0", 20)
        story.wait_until_serving("1.0.0")
    assert (entry["reason"], entry["metric"]) == ("EvaluationFailed", "perplexity")
    assert entry["observed"] == pytest.approx(2 * RECORDED_PERPLEXITY)
    assert entry["limit"] == pytest.approx(1.1 * RECORDED_PERPLEXITY)
    assert "EvaluationFailed" in story.told()
    assert story.selector() == active
    assert (traffic.lost, traffic.versions) == (0, ["1.0.0"])


def test_a_spike_in_the_soak_goes_back_without_any_request(story: Story) -> None:
    story.behave("1.0.0", perplexity=RECORDED_PERPLEXITY)
    story.behave("1.1.0", perplexity=RECORDED_PERPLEXITY)
    story.create("1.0.0", 1)
    with story.traffic():
        story.wait_until_serving("1.0.0")
    active = story.selector()
    candidate = soaking(story)
    verdicts = {one["metric"]: one["verdict"] for one in story.status()["verdicts"]}
    behave_now(story.pods(candidate), perplexity=3 * RECORDED_PERPLEXITY)
    entry = story.wait_until_rejected("1.1.0", 20)
    assert verdicts.get("perplexity") in (None, "Pass")
    assert (entry["reason"], entry["metric"]) == ("Breach", "perplexity")
    assert story.selector() == active


def test_a_set_that_is_not_there_is_a_visible_skip(story: Story) -> None:
    with story.traffic():
        serving(story)
        evaluation = story.status()["attempt"]["evaluation"]
    assert (evaluation["verdict"], evaluation["reason"]) == ("Skipped", "NoEvaluationSet")
