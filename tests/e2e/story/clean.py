"""Removing what the demo made, and nothing else."""

import contextlib

from backstay_cluster.progress import Progress
from backstay_contract.names import GROUP, PLURAL

from tests.e2e.story import settings
from tests.e2e.story.kube import Kube, KubectlError

CRD = f"{PLURAL}.{GROUP}"


def resources(kube: Kube, progress: Progress) -> None:
    """Remove the demo's resource with all its children, and its namespace."""
    if not marked(kube, settings.DEMO):
        return
    with progress.step(f"remove namespace {settings.DEMO}") as step:
        step.waits_for("the operator to end the pods")
        with contextlib.suppress(KubectlError):  # an operator that is away must not keep the namespace
            where = f"--namespace={settings.DEMO}"
            kube.run("delete", PLURAL, "--all", where, "--timeout=60s", "--ignore-not-found", timeout_s=70)
            kube.run("wait", PLURAL, "--all", where, "--for=delete", "--timeout=60s", timeout_s=70)
        release(kube)
        kube.run("delete", "namespace", settings.DEMO, "--timeout=120s", timeout_s=130)


def release(kube: Kube) -> None:
    """Take the finalizers off what is left of the demo's resources."""
    try:
        left = kube.items(PLURAL, f"--namespace={settings.DEMO}")
    except KubectlError:  # no such kind: nothing is left
        return
    for one in left:
        patch = '{"metadata": {"finalizers": null}}'
        name, where = one["metadata"]["name"], f"--namespace={settings.DEMO}"
        kube.run("patch", PLURAL, name, where, "--type=merge", f"--patch={patch}")


def operator(kube: Kube, progress: Progress) -> None:
    """Remove the operator, its rights and, where no resource of it is left anywhere, its CRD."""
    if not marked(kube, settings.SYSTEM):
        return
    with progress.step("remove the operator") as step:
        step.waits_for(f"namespace {settings.SYSTEM}")
        kube.run("delete", "namespace", settings.SYSTEM, "--timeout=120s", timeout_s=130)
        for kind in ("clusterrolebinding", "clusterrole"):
            kube.run("delete", kind, "--selector=app.kubernetes.io/instance=backstay", "--ignore-not-found")
        with contextlib.suppress(KubectlError):
            if not kube.items(PLURAL, "--all-namespaces"):
                kube.run("delete", "crd", CRD, "--timeout=60s", timeout_s=70)


def storage(kube: Kube, progress: Progress) -> None:
    """Remove the object storage, where the demo brought it into a cluster of the user's."""
    if marked(kube, "minio"):
        with progress.step("remove the object storage"):
            kube.run("delete", "namespace", "minio", "--timeout=120s", timeout_s=130)


def marked(kube: Kube, namespace: str) -> bool:
    """Whether the namespace is there and was made by the demo."""
    found = kube.items("namespaces", f"--field-selector=metadata.name={namespace}")
    return any(settings.MARK in one["metadata"].get("labels", {}) for one in found)
