"""What a scenario came to, in one line for people."""

from typing import Any

from tests.integration.harness.story import Story


def words(story: Story) -> str:
    """Phase, reason, what serves, what was rejected, what clients lost."""
    answer = story.client.get(story.path)
    if answer.status_code == 404:
        return "the resource is gone"
    status: dict[str, Any] = answer.json().get("status") or {}
    active = status.get("active") or {}
    parts = [f"{status.get('phase')} {status.get('reason')}"]
    parts += [f"{active['version']} serves on {story.selector()}"] if active else ["nothing serves"]
    parts += [f"{one['version']} rejected: {one['reason']}" for one in status.get("rejected", ())]
    parts += [f"{traffic.lost} of {traffic.lost + traffic.answered} requests lost" for traffic in story.clients]
    return "; ".join(parts)
