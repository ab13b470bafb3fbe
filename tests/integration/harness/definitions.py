"""CustomResourceDefinitions on the real API server."""

import time

from backstay_cluster.control_plane import ControlPlane
from backstay_cluster.errors import ClusterError

SECONDS = 60


def wait_until_established(plane: ControlPlane, name: str) -> None:
    """Until the API server serves the kind. `kubectl wait` fails at once where there is no status yet: asked again."""
    until = time.monotonic() + SECONDS
    while True:
        try:
            plane.kubectl("wait", "--for=condition=Established", f"crd/{name}", f"--timeout={SECONDS}s")
            return
        except ClusterError as error:
            if "accessor error" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.2)
