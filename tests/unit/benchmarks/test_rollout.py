"""What is said of flips under load, and of ways back."""

from benchmarks.rollout import latency, node
from benchmarks.rollout.latency import WayBack
from benchmarks.rollout.node import Traffic
from tests.e2e.story.answers import Answer
from tests.e2e.story.history import Flip

FLIPS = (Flip(10.0, "green"), Flip(20.0, "blue"))
DIGESTS = ("b", "a")


def answers(moves_after: float, status: int = 200) -> list[Answer]:
    """Ten requests a second; kept connections follow each flip after so many seconds."""
    found = []
    for tick in range(300):
        sent = tick / 10
        serving = "b" if 10 + moves_after <= sent < 20 + moves_after else "a"
        found.append(Answer("kept", tick, sent, 5.0, status if tick == 150 else 200, serving, None))
    return found


def test_flips_that_lose_nothing_and_move_kept_connections_in_time_hold_the_promises() -> None:
    lines, held = node.report(Traffic(answers(0.5), FLIPS, DIGESTS, until=29.0))
    assert held
    assert "2 flips, 300 requests at 50 a second: 0 failed" in lines[0]
    assert "within 0.40 s of each flip (2 measured)" in lines[1]


def test_one_failed_request_breaks_the_promise_and_is_shown() -> None:
    lines, held = node.report(Traffic(answers(0.5, status=503), FLIPS, DIGESTS, until=29.0))
    assert not held
    assert lines[-1] == "  failed: kept 503 None"


def test_connections_that_stay_on_the_loser_for_longer_break_the_promise() -> None:
    assert not node.report(Traffic(answers(3.0), FLIPS, DIGESTS, until=29.0))[1]


def test_a_winner_that_answers_nobody_has_not_been_moved_to() -> None:
    assert not node.report(Traffic(answers(50.0), FLIPS, DIGESTS, until=29.0))[1]


def test_the_summary_has_median_and_worst_of_both_spans() -> None:
    said = latency.summary([WayBack(0.1, 1.0), WayBack(0.3, 2.0), WayBack(0.2, 9.0)], 2.0)
    assert "sample  to selector: median 0.200 s, worst 0.300 s" in said
    assert "onset   to selector: median 2.000 s, worst 9.000 s" in said
