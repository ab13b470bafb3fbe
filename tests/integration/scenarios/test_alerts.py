"""Alerts that Alertmanager reports while a version is watched."""

from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from backstay_contract.names import AlertLabel

from tests.integration.harness.story import Story, digest
from tests.integration.scenarios.steps import ALERTS_TOKEN, serving, soaking

pytestmark = [pytest.mark.control_plane, pytest.mark.case("S24")]


def report(story: Story, version: str, since: datetime) -> dict[str, Any]:
    """What the operator answers to an alert about the version."""
    labels = {
        "alertname": "AnswersAreRubbish",
        AlertLabel.NAMESPACE: story.namespace,
        AlertLabel.RESOURCE: story.name,
        AlertLabel.DIGEST: digest(version),
    }
    alert = {"status": "firing", "fingerprint": "f1", "labels": labels, "startsAt": since.isoformat()}
    answer: httpx2.Response = story.operator.plane.inside(
        lambda: httpx2.post(
            f"http://127.0.0.1:{story.operator.health_port}/alerts",
            json={"version": "4", "alerts": [alert]},
            headers={"Authorization": f"Bearer {ALERTS_TOKEN}"},
            timeout=25,
        )
    )
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def test_an_alert_about_what_does_not_serve_or_from_before_it_did_moves_nothing(story: Story) -> None:
    long_ago = datetime.now(UTC)
    with story.traffic() as traffic:
        serving(story)
        active = soaking(story)
        assert report(story, "1.0.0", datetime.now(UTC))["ignored"][0]["fingerprint"] == "f1"
        report(story, "1.1.0", long_ago)
        story.pause(2)
        assert story.selector() == active
    assert not story.status().get("rejected")
    assert traffic.lost == 0


def test_an_alert_about_what_serves_sends_it_back_and_counts_once(story: Story) -> None:
    with story.traffic() as traffic:
        previous = serving(story)
        soaking(story)
        assert report(story, "1.1.0", datetime.now(UTC)) == {"accepted": 1, "ignored": []}
        assert story.selector() == previous
        assert story.wait_until_rejected("1.1.0")["reason"] == "Alert"
        attempts = story.wait_until_serving("1.0.0")["attempts"]
        report(story, "1.1.0", datetime.now(UTC))
        story.pause(2)
        status = story.status()
    assert (status["attempts"], len(status["rejected"]), story.selector()) == (attempts, 1, previous)
    assert "AnswersAreRubbish" in status["rejected"][0]["message"]
    assert traffic.versions == ["1.0.0", "1.1.0", "1.0.0"]
    assert traffic.lost == 0
