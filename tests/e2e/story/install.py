"""Bringing the operator and the demo's namespace into a cluster."""

import secrets
from pathlib import Path

from backstay_contract.names import GROUP, PLURAL

from tests.e2e.story import objects, settings
from tests.e2e.story.place import Place

MANIFESTS = Path(__file__).parents[3] / "manifests" / "install.yaml"
CONTROL = "backstay-control"


def operator(place: Place, **more: str) -> None:
    """Apply manifests/install.yaml with the place's images; `more`: further settings of the operator."""
    kube = place.kube
    environment = {"BACKSTAY_WATCH_NAMESPACES": settings.DEMO, **place.settings, **more}
    installed = objects.installation(
        MANIFESTS.read_text(),
        operator_image=place.operator_image,
        runtime_image=place.runtime_image,
        environment=environment,
    )
    kube.apply_installation(installed)
    if not kube.items("secrets", f"--namespace={settings.SYSTEM}", f"--field-selector=metadata.name={CONTROL}"):
        kube.apply(objects.secret(CONTROL, settings.SYSTEM, {"key": secrets.token_hex(32)}))
    kube.run("wait", f"crd/{PLURAL}.{GROUP}", "--for=condition=Established", "--timeout=30s", timeout_s=40)


def demo_namespace(place: Place) -> None:
    """The namespace of the demo's resource, with the keys for the storage in it."""
    place.kube.apply(objects.namespace(settings.DEMO))
    place.kube.apply(objects.secret(settings.READER, settings.DEMO, place.storage_keys()))


def wait_for_operator(place: Place) -> None:
    """Until its pod is ready."""
    where = f"--namespace={settings.SYSTEM}"
    place.kube.run("rollout", "status", "deployment/backstay", where, "--timeout=120s", timeout_s=130)
