"""make crash-sweep: kills the operator at each of its API writes. Exit code 1 where an end state differs."""

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from backstay_cluster import control_plane as control_planes
from backstay_cluster.control_plane import ControlPlane

from tests.integration.crash import session
from tests.integration.crash.plays import PLAYS
from tests.integration.crash.sweep import Stage
from tests.integration.harness.api import read_access
from tests.integration.harness.fake_kubelet import FakeKubelet
from tests.integration.harness.operator_process import RBAC

CRD_FILE = Path(__file__).parents[3] / "crds" / "backstay.dev_modeldeployments.yaml"


def main() -> int:
    names = [play.name for play in PLAYS]
    parser = argparse.ArgumentParser(prog="python -m tests.integration.crash", description=__doc__)
    parser.add_argument("--play", action="append", choices=names, help="only this one; may be given several times")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="only every Nth point; an odd N takes both sides in turns"
    )
    parser.add_argument("--lanes", type=int, default=6, metavar="N", help="runs at the same time")
    chosen = parser.parse_args()
    plays = [play for play in PLAYS if play.name in (chosen.play or names)]
    with control_planes.running_for("crash") as plane, tempfile.TemporaryDirectory(prefix="backstay-crash-") as folder:
        stage = _stage(plane, Path(folder))
        try:
            faults = session.sweep(
                stage, plays, lanes=chosen.lanes, every=chosen.every, tell=lambda line: print(line, flush=True)
            )
        finally:
            stage.kubelet.stop()
    return 1 if faults else 0


def _stage(plane: ControlPlane, folder: Path) -> Stage:
    """Everything that the pytest fixtures would make."""
    crd = plane.kubectl("apply", f"--filename={CRD_FILE}", "--output=name").strip()
    plane.kubectl("wait", "--for=condition=Established", crd, "--timeout=30s")
    plane.kubectl("apply", f"--filename={RBAC}")
    token = plane.kubectl("create", "token", "it-backstay-operator", "--duration=2h").strip()
    access = read_access(plane.kubeconfig)
    kubelet = FakeKubelet(plane, access)
    kubelet.start()
    return Stage(plane, access, replace(access, token=token), kubelet, folder)


if __name__ == "__main__":
    sys.exit(main())
