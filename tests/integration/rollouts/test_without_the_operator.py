"""An operator that is gone, and what holds the resources then."""

import json
import subprocess
import sys
import time

import pytest
from backstay_cluster.control_plane import ControlPlane

from tests.integration.harness.api import done
from tests.integration.harness.monitoring import GROUP, definition, name
from tests.integration.harness.story import Story

pytestmark = pytest.mark.control_plane


def is_gone(story: Story) -> bool:
    return bool(story.client.get(story.path).status_code == 404)


def release(story: Story) -> str:
    """As the hook of `helm uninstall` does it."""
    command = [sys.executable, "-m", "backstay_operator", "release", "--namespace", story.namespace]
    env = {"KUBECONFIG": str(story.operator.kubeconfig), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


@pytest.mark.case("T36")
def test_what_is_deleted_after_the_operator_is_freed_by_the_release(story: Story) -> None:
    story.create("1.0.0", replicas=1)
    story.wait("the finalizer", lambda: bool(story.get()["metadata"].get("finalizers")))
    story.operator.kill()
    done(story.client.delete(f"/api/v1/namespaces/{story.namespace}"))
    story.pause(3)
    assert not is_gone(story)  # the finalizer holds it: nobody is there to take it off
    assert release(story) == "1 resources let go\n"

    def namespace_is_gone() -> bool:
        return bool(story.client.get(f"/api/v1/namespaces/{story.namespace}").status_code == 404)

    story.wait("the namespace's end", namespace_is_gone, 60)


@pytest.mark.case("T36")
def test_a_deletion_that_began_before_the_operators_end_is_freed_by_the_release(story: Story) -> None:
    story.create("1.0.0", replicas=1)
    with story.traffic():
        story.wait_until_serving("1.0.0")
        story.pods("blue")[0].holds_until = time.time() + 12
        story.delete()
        story.wait_for(phase="Terminating")
        story.operator.stop()
        assert release(story) == "1 resources let go\n"
        story.wait("the end", lambda: is_gone(story), 10)
    story.wait("nothing left", lambda: not story.children(), 40)


def test_monitors_are_made_only_where_their_kinds_exist(story: Story, control_plane: ControlPlane) -> None:
    def monitors() -> int:
        answer = story.client.get(f"/apis/{GROUP}/v1/namespaces/{story.namespace}/podmonitors")
        return 0 if answer.status_code == 404 else len(done(answer)["items"])

    story.operator.stop()
    story.operator.start(BACKSTAY_COMPANIONS=json.dumps({"podMonitor": {}}))
    story.create("1.0.0", replicas=1)
    with story.traffic():
        story.wait_until_serving("1.0.0")
        assert (monitors(), "PodMonitor" in story.operator.log.read_text()) == (0, False)
        control_plane.kubectl("apply", "--filename=-", text=json.dumps(definition("PodMonitor")))
        try:
            story.operator.stop()
            story.operator.start(BACKSTAY_COMPANIONS=json.dumps({"podMonitor": {}}))
            story.wait("a monitor", lambda: monitors() == 1)
        finally:
            control_plane.kubectl("delete", "crd", name("PodMonitor"), "--wait=false")
