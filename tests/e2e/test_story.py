"""The whole story, as `make demo` tells it."""

from collections.abc import Iterator

import pytest
from backstay_cluster.progress import Progress

from tests.e2e.story import chapters, diagnosis, settings, timeline
from tests.e2e.story.claims import claims
from tests.e2e.story.place import Place
from tests.e2e.story.record import Record

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def told(installed: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    folder = tmp_path_factory.mktemp("story")
    with chapters.Story(installed, Progress(), folder) as story:
        try:
            yield chapters.tell(story)
        except Exception:
            print(diagnosis.write(installed.kube, folder / "diagnosis.txt").read_text())
            raise


def test_every_promise_of_the_demo_held(told: Record) -> None:
    found = claims(told)
    print(timeline.text(told, found, "kubectl"))
    assert [claim for claim in found if not claim.holds] == []


def test_the_better_version_was_verified_on_enough_requests(told: Record) -> None:
    _, lighter, _ = told.rollouts
    judged = {verdict["metric"]: verdict for verdict in lighter.verdicts if verdict["verdict"] != "Skipped"}
    assert judged.keys() == {"p99LatencyMs", "errorRate"}
    for verdict in judged.values():
        assert verdict["verdict"] == "Pass"
        assert verdict["n"] >= 382, "fewer requests cannot show that at most 1 % are slow"


def test_the_worse_version_was_left_on_its_own_latency(told: Record) -> None:
    *_, slower = told.rollouts
    (breach,) = (verdict for verdict in slower.verdicts if verdict["verdict"] == "Breach")
    assert breach["metric"] == "p99LatencyMs"
    assert breach["limit"] == pytest.approx(settings.TOLERANCE * told.baseline.p99_ms, rel=0.01)
    assert breach["eValue"] >= breach["breachAt"]


def test_the_way_back_took_at_most_a_second_from_the_breaching_look(told: Record) -> None:
    *_, slower = told.rollouts
    assert slower.back_at is not None
    assert slower.breach_at is not None
    assert slower.back_at - slower.breach_at < 1.0
