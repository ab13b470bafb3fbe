"""A real control plane with a played node and the operator as a process, for as long as a block lasts."""

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from backstay_cluster import control_plane as control_planes

from tests.integration.harness.api import read_access
from tests.integration.harness.fake_kubelet import FakeKubelet
from tests.integration.harness.operator_process import RBAC, OperatorProcess
from tests.integration.harness.story import Story

CRD_FILE = Path(__file__).parents[2] / "crds" / "backstay.dev_modeldeployments.yaml"


@contextmanager
def story() -> Iterator[Story]:
    """One resource's life on it."""
    with control_planes.running_for("bench-rollout") as plane, tempfile.TemporaryDirectory() as folder:
        crd = plane.kubectl("apply", f"--filename={CRD_FILE}", "--output=name").strip()
        plane.kubectl("wait", "--for=condition=Established", crd, "--timeout=30s")
        plane.kubectl("apply", f"--filename={RBAC}")
        token = plane.kubectl("create", "token", "it-backstay-operator", "--duration=2h").strip()
        access = read_access(plane.kubeconfig)
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(replace(access, token=token).kubeconfig())
        kubelet = FakeKubelet(plane, access)
        kubelet.start()
        operator = OperatorProcess(plane, kubeconfig, Path(folder))
        operator.start()
        try:
            operator.wait_until_healthy()
            namespace = f"bench-{uuid.uuid4().hex[:8]}"
            plane.kubectl("create", "namespace", namespace)
            with access.client() as client:
                yield Story(client, namespace, kubelet, operator)
        finally:
            operator.kill()
            kubelet.stop()
