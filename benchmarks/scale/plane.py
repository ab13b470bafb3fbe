"""A real control plane, a node that plays the kubelet for thousands of pods, and the operator as a process."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from backstay_cluster import control_plane as control_planes
from backstay_cluster.control_plane import ControlPlane

from tests.integration.harness.api import Access, read_access
from tests.integration.harness.fake_kubelet import FakeKubelet
from tests.integration.harness.operator_process import RBAC, OperatorProcess

CRD_FILE = Path(__file__).parents[2] / "crds" / "backstay.dev_modeldeployments.yaml"
ROOM = {"cpu": "100k", "memory": "900Ti", "pods": "5000", "ephemeral-storage": "900Ti"}


@dataclass(frozen=True)
class Plane:
    """Everything that runs."""

    control: ControlPlane
    access: Access
    kubelet: FakeKubelet
    kubeconfig: Path
    folder: Path

    def operator(self, number: int = 0, **env: str) -> OperatorProcess:
        """Another operator, not started yet; those with one lease name compete for it."""
        folder = self.folder / f"operator-{number}"
        folder.mkdir(exist_ok=True)
        return OperatorProcess(self.control, self.kubeconfig, folder, env, number)


@contextmanager
def running() -> Iterator[Plane]:
    """The plane, for as long as the block lasts."""
    with control_planes.running_for(f"scale-{os.getpid()}") as control, tempfile.TemporaryDirectory() as folder:
        crd = control.kubectl("apply", f"--filename={CRD_FILE}", "--output=name").strip()
        control.kubectl("wait", "--for=create", crd, "--timeout=30s")
        control.kubectl("wait", "--for=condition=Established", crd, "--timeout=30s")
        control.kubectl("apply", f"--filename={RBAC}")
        token = control.kubectl("create", "token", "it-backstay-operator", "--duration=2h").strip()
        access = read_access(control.kubeconfig)
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(replace(access, token=token).kubeconfig())
        kubelet = FakeKubelet(control, access)
        kubelet.room = ROOM
        kubelet.start()
        try:
            yield Plane(control, access, kubelet, kubeconfig, Path(folder))
        finally:
            kubelet.stop()
