"""A colour's Deployment, rendered for one revision and attempt."""

from backstay_contract import names
from backstay_contract.names import Annotation, Label, Port
from backstay_contract.profile import NO_GPU
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import Colour

from backstay_operator.desired import containers
from backstay_operator.desired.common import ATTEMPT_LABEL, Json, Owner, child, pod_selector
from backstay_operator.rollout.capacity import reckoning
from backstay_operator.rollout.capacity.nodes import GPU_PRODUCT
from backstay_operator.rollout.revision import Wanted

USER = 65532
"""The images' user, and the group of the pod's volumes."""


def deployment(
    owner: Owner,
    spec: ModelDeploymentSpec,
    colour: Colour,
    build: Wanted,
    *,
    attempt: str,
    replicas: int,
    token_hash: str,
) -> Json:
    """The Deployment of a colour: a pure function of its arguments, so the same pass renders the same bytes.

    What is built may be an older revision than the spec asks for; only the rollout's settings come from the spec then.
    """
    spec = build.over(spec)
    labels = {Label.COLOUR: str(colour), Label.REVISION: build.revision}
    annotations = {
        Annotation.DIGEST: build.digest,
        Annotation.MODEL_VERSION: build.version,
        Annotation.ATTEMPT: attempt,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": child(
            owner,
            names.deployment(owner.name, colour),
            labels=labels,
            annotations=annotations,
        ),
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 1,
            # Two attempts' pods of one colour must never run side by side: each would count for the other.
            "strategy": {"type": "Recreate"},
            # The attempt's own deadline decides; this one would only add a second, unrelated verdict.
            "progressDeadlineSeconds": max(600, spec.rollout.progress_deadline_seconds) + 1,
            "selector": {"matchLabels": pod_selector(owner, colour)},
            "template": {
                "metadata": {
                    "labels": owner.labels() | labels | {Label.COMPONENT: "runtime", ATTEMPT_LABEL: attempt},
                    "annotations": annotations | _scraping(),
                },
                "spec": _pod(owner.namespace, spec, build, token_hash),
            },
        },
    }


def _pod(namespace: str, spec: ModelDeploymentSpec, build: Wanted, token_hash: str) -> Json:
    body: Json = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": containers.grace_seconds(spec) + 10,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [containers.pull(spec, build.image, namespace)],
        "containers": [containers.serve(spec, build.image, namespace, token_hash)],
        "volumes": containers.volumes(spec),
    }
    tolerations = [one.to_json() for one in reckoning.tolerations(spec.serving, spec.hardware_profile)]
    node_selector = dict(spec.serving.node_selector)
    if spec.hardware_profile.gpu != NO_GPU:
        node_selector[GPU_PRODUCT] = spec.hardware_profile.gpu.replace(" ", "-")
    if node_selector:
        body["nodeSelector"] = node_selector
    if tolerations:
        body["tolerations"] = tolerations
    return body


def _scraping() -> dict[str, str]:
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(Port.HTTP),
        "prometheus.io/path": "/metrics",
    }
