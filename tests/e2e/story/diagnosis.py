"""What a person would look at when the story could not be told."""

from pathlib import Path

from tests.e2e.story import settings
from tests.e2e.story.kube import Kube, KubectlError

DEMO = f"--namespace={settings.DEMO}"
SYSTEM = f"--namespace={settings.SYSTEM}"
LOOKS = (
    ("get", "mdep", DEMO, "--output=yaml"),
    ("get", "events", DEMO, "--sort-by=.lastTimestamp"),
    ("get", "pods", "--all-namespaces", "--output=wide"),
    ("get", "services,endpointslices,deployments", DEMO, "--output=wide"),
    ("describe", "pods", DEMO),
    ("logs", "--selector=app.kubernetes.io/managed-by=backstay", DEMO, "--all-containers", "--tail=60"),
    ("logs", "deployment/backstay", SYSTEM, "--tail=200"),
    ("describe", "pods", SYSTEM),
)


def write(kube: Kube, file: Path) -> Path:
    """Look at everything, write it into the file, and return its path."""
    parts = []
    for look in LOOKS:
        try:
            said = kube.run(*look)
        except KubectlError as error:
            said = str(error)
        parts.append(f"$ kubectl {' '.join(look)}\n{said}\n")
    file.write_text("\n".join(parts))
    return file
