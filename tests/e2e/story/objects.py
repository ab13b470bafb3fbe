"""The objects that the demo applies. Pure: values in, plain objects out."""

import copy
from typing import Any

import yaml

from tests.e2e.story import settings

Json = dict[str, Any]
CLIENT = "load.py"
SECURITY: Json = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def namespace(name: str) -> Json:
    """A namespace that is marked as the demo's."""
    labels = {settings.MARK: "true", "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def secret(name: str, namespace: str, values: dict[str, str]) -> Json:
    """A Secret."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "stringData": values}


def installation(text: str, *, operator_image: str, runtime_image: str, environment: dict[str, str]) -> list[Json]:
    """The objects of manifests/install.yaml with these images and, for the operator, these further variables.

    Raises ValueError when the manifests have no operator to change.
    """
    objects = [one for one in yaml.safe_load_all(text) if one]
    containers = [
        container
        for one in objects
        if one["kind"] == "Deployment"
        for container in one["spec"]["template"]["spec"]["containers"]
    ]
    if len(containers) != 1:
        raise ValueError(f"manifests: {len(containers)} containers of Deployments, where one operator was expected")
    (operator,) = containers
    operator["image"] = operator_image
    wanted = {"BACKSTAY_RUNTIME_IMAGE": runtime_image, **environment}
    kept = [variable for variable in operator.get("env", []) if variable["name"] not in wanted]
    operator["env"] = [*kept, *({"name": name, "value": value} for name, value in wanted.items())]
    for one in objects:
        if one["kind"] == "Namespace":
            one["metadata"].setdefault("labels", {})[settings.MARK] = "true"
    return objects


def asked(rendered: Json, *, serving: Json, rollout: Json) -> Json:
    """The resource that `backstay render` printed, with these settings of serving and rollout."""
    resource = copy.deepcopy(rendered)
    resource["spec"]["serving"] = {**resource["spec"].get("serving", {}), **serving}
    resource["spec"]["rollout"] = {**resource["spec"].get("rollout", {}), **rollout}
    return resource


def annotated(resource: Json, **annotations: str) -> Json:
    """The same resource with these annotations."""
    changed = copy.deepcopy(resource)
    changed["metadata"]["annotations"] = {**changed["metadata"].get("annotations", {}), **annotations}
    return changed


def load_client(source: str) -> Json:
    """The load's program as a ConfigMap."""
    metadata = {"name": "load", "namespace": settings.DEMO}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {CLIENT: source}}


def load_pod(kind: str, image: str, **more: float) -> Json:
    """The pod that sends requests of this kind to the active Service; `more` are further options of its program."""
    options = {
        "url": f"http://{settings.RESOURCE}.{settings.DEMO}.svc",
        "model": settings.MODEL,
        "kind": kind,
        "max-tokens": settings.MAX_TOKENS,
        **more,
    }
    container = {
        "name": "load",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", f"/client/{CLIENT}", *(f"--{name}={value}" for name, value in options.items())],
        "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": SECURITY,
        "volumeMounts": [{"name": "client", "mountPath": "/client", "readOnly": True}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"load-{kind}", "namespace": settings.DEMO, "labels": {"app": "load"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "client", "configMap": {"name": "load"}}],
        },
    }
