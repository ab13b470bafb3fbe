"""From the API's JSON to the machine's view of a colour. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from backstay_contract import names
from backstay_contract.names import Annotation, Env, Label
from backstay_contract.status import Colour

from backstay_operator.desired.containers import CREDENTIALS_VOLUME
from backstay_operator.observe.children import Children
from backstay_operator.rollout import failures
from backstay_operator.rollout.observation import ColourState, Pod
from backstay_operator.rollout.revision import Source

Json = Mapping[str, Any]
STUCK_SECONDS = 60
"""After the end of a pod's grace period, which is what its deletionTimestamp names."""
MAX_PROBLEM = 512
"""Characters of a Deployment's problem."""


def state_of(colour: Colour, name: str, children: Children, now: datetime) -> ColourState:
    """A colour's Deployment and pods as they are; `name` is the resource's."""
    listed = children.pods.get(colour, ())
    pods = [pod for pod in listed if not is_stuck(pod, now)]
    deployment = children.deployments.get(colour)
    endpoints = endpoints_of(names.deployment(name, colour), pods, children.slices)
    if deployment is None:
        return ColourState(colour, pods=tuple(pod_of(pod) for pod in pods), endpoints=endpoints)
    metadata: Json = deployment["metadata"]
    annotations: Json = metadata.get("annotations") or {}
    replicas = int(deployment["spec"].get("replicas", 1))
    return ColourState(
        colour=colour,
        exists=True,
        revision=(metadata.get("labels") or {}).get(Label.REVISION, ""),
        attempt=annotations.get(Annotation.ATTEMPT, ""),
        digest=annotations.get(Annotation.DIGEST, ""),
        version=annotations.get(Annotation.MODEL_VERSION, ""),
        image=image_of(deployment),
        source=source_of(deployment),
        problem=problem_of(deployment),
        replicas=replicas,
        pods=tuple(pod_of(pod) for pod in pods if replicas > 0 or not ended(pod)),
        endpoints=endpoints,
        stuck=len(listed) - len(pods),
    )


def is_stuck(pod: Json, now: datetime) -> bool:
    """Whether the pod should have ended long ago: its node does not answer, and nobody else can end it.

    It holds nothing up: it may still run, but no Service selects it. (Pods of nodes that are gone are collected.)
    """
    ends = pod["metadata"].get("deletionTimestamp")
    return ends is not None and (now - datetime.fromisoformat(ends)).total_seconds() > STUCK_SECONDS


def image_of(deployment: Json) -> str:
    """The runtime image that the Deployment was rendered with."""
    containers = deployment["spec"]["template"]["spec"].get("containers") or ()
    return next((str(container.get("image", "")) for container in containers if container["name"] == "serve"), "")


def source_of(deployment: Json) -> Source | None:
    """Where the Deployment's pods fetch the model; None where its template does not say so in our form."""
    template: Json = deployment["spec"]["template"]["spec"]
    pulls = (container for container in template.get("initContainers") or () if container.get("name") == "pull")
    env = {one.get("name"): one.get("value") for pull in pulls for one in pull.get("env") or ()}
    uri, endpoint, region = (env.get(name) for name in (Env.MODEL_URI, Env.STORAGE_ENDPOINT, Env.STORAGE_REGION))
    if uri is None or endpoint is None or region is None:
        return None
    volumes = (volume for volume in template.get("volumes") or () if volume.get("name") == CREDENTIALS_VOLUME)
    return Source(uri, endpoint, region, next((volume["secret"]["secretName"] for volume in volumes), None))


def problem_of(deployment: Json) -> str:
    """Why no pod can be made, as a quota or an admission policy says it; empty where nothing does."""
    for condition in (deployment.get("status") or {}).get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("ReplicaFailure", "True"):
            return str(condition.get("message") or condition.get("reason") or "")[:MAX_PROBLEM]
    return ""


def ended(pod: Json) -> bool:
    """Whether the pod runs no more, as an evicted one. Such pods stay until their Deployment goes, and hold nothing."""
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def pod_of(pod: Json) -> Pod:
    """One pod."""
    metadata: Json = pod["metadata"]
    status: Json = pod.get("status") or {}
    return Pod(
        name=metadata["name"],
        revision=(metadata.get("labels") or {}).get(Label.REVISION, ""),
        attempt=(metadata.get("annotations") or {}).get(Annotation.ATTEMPT, ""),
        ready=is_ready(pod),
        terminating="deletionTimestamp" in metadata,
        ip=status.get("podIP"),
        unschedulable=failures.unschedulable(pod),
        failure=failures.failure_of(pod),
    )


def is_ready(pod: Json) -> bool:
    """Whether the pod may get traffic: ready, and not on its way out."""
    if "deletionTimestamp" in pod["metadata"] or ended(pod):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any((c.get("type"), c.get("status")) == ("Ready", "True") for c in conditions)


def incarnation(pod: Json) -> str:
    """Tells one start of the pod's serving container from the next; empty while it does not run."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        if container.get("name") == "serve" and (container.get("state") or {}).get("running"):
            return str(container.get("containerID") or container["state"]["running"].get("startedAt", ""))
    return ""


def endpoints_of(deployment: str, pods: Sequence[Json], slices: Sequence[Json]) -> int:
    """Endpoints that are the colour's pods, whatever their state. A pod may be gone while its endpoint is not yet."""
    known = {pod["metadata"]["name"] for pod in pods}
    names_of = [
        (endpoint.get("targetRef") or {}).get("name", "") for one in slices for endpoint in one.get("endpoints") or ()
    ]
    return sum(name in known or name.startswith(f"{deployment}-") for name in names_of)


def with_answers(state: ColourState, answers: Mapping[str, Pod]) -> ColourState:
    """The colour with what its pods themselves said."""
    return replace(state, pods=tuple(answers.get(pod.name, pod) for pod in state.pods))
