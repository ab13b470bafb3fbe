"""Bad fields are refused at apply, by a real API server, with the field's name and what is wrong with it."""

import copy
import json
from typing import Any

import pytest
from backstay_cluster.control_plane import ControlPlane
from backstay_cluster.errors import ClusterError
from backstay_contract import names

pytestmark = pytest.mark.control_plane

DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
GOOD: dict[str, Any] = {
    "apiVersion": names.API_VERSION,
    "kind": names.KIND,
    "metadata": {"name": "chat"},
    "spec": {
        "model": {
            "name": "smollm2",
            "version": "1.0.0",
            "uri": "s3://models/smollm2/1.0.0",
            "sha256": DIGEST,
            "storage": {"endpoint": "http://minio.minio.svc:9000"},
        },
    },
}
ENDPOINT = "spec.model.storage.endpoint"
LOOPBACK = "loopback, link-local and metadata addresses are refused"


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good resource with one field set; a path's last part may be missing so far."""
    resource = copy.deepcopy(GOOD)
    place = resource
    *parents, last = path.split(".")
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value
    return resource


def without(path: str) -> dict[str, Any]:
    resource = copy.deepcopy(GOOD)
    place = resource
    *parents, last = path.split(".")
    for parent in parents:
        place = place[parent]
    del place[last]
    return resource


def create(plane: ControlPlane, resource: dict[str, Any], *options: str) -> str:
    return plane.kubectl("create", "--filename=-", "--validate=strict", *options, text=json.dumps(resource))


def try_out(plane: ControlPlane, resource: dict[str, Any]) -> str:
    """All checks of the API server; nothing is stored."""
    return create(plane, resource, "--namespace=default", "--dry-run=server")


def refusal(plane: ControlPlane, resource: dict[str, Any]) -> str:
    with pytest.raises(ClusterError) as caught:
        try_out(plane, resource)
    return str(caught.value)


def test_the_resource_that_the_others_are_made_from_is_taken(control_plane: ControlPlane, crd: str) -> None:
    assert "created" in try_out(control_plane, GOOD)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        # unknown fields, at every depth
        ("spec.replica", 2, 'unknown field "spec.replica"'),
        ("spec.model.digest", DIGEST, 'unknown field "spec.model.digest"'),
        ("spec.baselines.p99Latency", {"value": 4}, 'unknown field "spec.baselines.p99Latency"'),
        ("spec.baselines.p99LatencyMs", {"value": 4, "unit": "s"}, 'unknown field "spec.baselines.p99LatencyMs.unit"'),
        ("spec.rollout.soak.minSecond", 5, 'unknown field "spec.rollout.soak.minSecond"'),
        ("spec.serving.resources.limits", {"gpu": "1"}, "unknown key; one of cpu, memory, ephemeral-storage"),
        # the model
        ("spec.model.sha256", DIGEST[:-1], "spec.model.sha256"),
        ("spec.model.sha256", DIGEST.upper(), "spec.model.sha256"),
        ("spec.model.sha256", f"sha512:{DIGEST}", "spec.model.sha256"),
        ("spec.model.sha256", "latest", "spec.model.sha256"),
        ("spec.model.name", "Smol LM", "spec.model.name"),
        ("spec.model.version", "1.0.0 ", "spec.model.version"),
        ("spec.model.version", 1.0, "spec.model.version"),
        ("spec.model.uri", "https://models/smollm2", "spec.model.uri"),
        ("spec.model.uri", "s3://models", "spec.model.uri"),
        ("spec.model.uri", "s3://models/a/../b", "model.uri: must not have '.' or '..' between slashes"),
        ("spec.model.uri", "s3://models/a/..", "model.uri: must not have '.' or '..' between slashes"),
        ("spec.model.storage.secretRef", {}, "spec.model.storage.secretRef.name"),
        ("spec.model.storage.secretRef", {"name": "not/a/name"}, "spec.model.storage.secretRef.name"),
        # where models are kept
        ("spec.model.storage.cache", {"kind": "Disk"}, "spec.model.storage.cache.kind"),
        ("spec.model.storage.cache", {"kind": "Claim"}, "cache.claimName"),
        ("spec.model.storage.cache", {"kind": "Node", "claimName": "x"}, "cache.claimName"),
        ("spec.model.storage.cache", {"size": "10GB"}, "spec.model.storage.cache.size"),
        # the storage's endpoint
        (ENDPOINT, "file:///models", ENDPOINT),
        (ENDPOINT, "http://user:secret@minio:9000", ENDPOINT),
        (ENDPOINT, "http://minio:9000/models", ENDPOINT),
        (ENDPOINT, "http://[::1]:9000", ENDPOINT),
        (ENDPOINT, "http://localhost:9000", LOOPBACK),
        (ENDPOINT, "http://LocalHost:9000", LOOPBACK),
        (ENDPOINT, "http://minio.localhost", LOOPBACK),
        (ENDPOINT, "http://127.0.0.1:9000", LOOPBACK),
        (ENDPOINT, "https://127.1", LOOPBACK),
        (ENDPOINT, "http://0.0.0.0:9000", LOOPBACK),
        (ENDPOINT, "http://2130706433:9000", LOOPBACK),
        (ENDPOINT, "http://0x7f000001", LOOPBACK),
        (ENDPOINT, "http://0177.0.0.1", LOOPBACK),
        (ENDPOINT, "http://169.254.169.254", LOOPBACK),
        (ENDPOINT, "http://metadata.google.internal", LOOPBACK),
        (ENDPOINT, "http://100.100.100.200/", LOOPBACK),
        # the hardware
        ("spec.hardwareProfile", {"gpu": "none", "count": 1}, "hardwareProfile.count: must be 0 when gpu is none"),
        ("spec.hardwareProfile", {"gpu": "NVIDIA-H100"}, "hardwareProfile.count: must be 0 when gpu is none"),
        ("spec.hardwareProfile", {"count": -1}, "spec.hardwareProfile.count"),
        ("spec.hardwareProfile", {"driver": "new"}, "spec.hardwareProfile.driver"),
        ("spec.hardwareProfile", {"cuda": "~12"}, "spec.hardwareProfile.cuda"),
        # the baselines
        ("spec.baselines.p99LatencyMs", {"tolerance": 2}, "spec.baselines.p99LatencyMs.value"),
        ("spec.baselines.p99LatencyMs", {"value": "420ms"}, "spec.baselines.p99LatencyMs.value"),
        ("spec.baselines.p99LatencyMs", {"value": -1}, "spec.baselines.p99LatencyMs.value"),
        ("spec.baselines.p99LatencyMs", {"value": 0}, "baselines.p99LatencyMs.value: must be above 0 ms"),
        ("spec.baselines.ttftP99Ms", {"value": 0}, "baselines.ttftP99Ms.value: must be above 0 ms"),
        ("spec.baselines.interTokenP99Ms", {"value": 0}, "baselines.interTokenP99Ms.value: must be above 0 ms"),
        ("spec.baselines.tokensPerSecond", {"value": 0}, "baselines.tokensPerSecond.value: must be above 0 tokens/s"),
        ("spec.baselines.perplexity", {"value": 0.9}, "baselines.perplexity.value: a perplexity is at least 1"),
        ("spec.rollout.checks.evaluation", {"enabled": "yes"}, "spec.rollout.checks.evaluation.enabled"),
        ("spec.baselines.errorRate", {"value": 1.5}, "baselines.errorRate.value: is a fraction of requests, at most 1"),
        ("spec.baselines.errorRate", {"value": 0.1, "tolerance": 0.5}, "spec.baselines.errorRate.tolerance"),
        # serving
        ("spec.replicas", -1, "spec.replicas"),
        ("spec.replicas", 1.5, "spec.replicas"),
        ("spec.serving.dtype", "int4", "spec.serving.dtype"),
        ("spec.serving.maxNumSeqs", 0, "spec.serving.maxNumSeqs"),
        ("spec.serving.image", "my image", "spec.serving.image"),
        ("spec.serving.resources.limits", {"memory": "3 GiB"}, "spec.serving.resources.limits.memory"),
        ("spec.serving.tolerations", [{"effect": "NoRun"}], "spec.serving.tolerations[0].effect"),
        ("spec.serving.tolerations", [{"value": "gpu"}], "tolerations.key: needed where operator is Equal"),
        (
            "spec.serving.tolerations",
            [{"operator": "Exists", "value": "gpu"}],
            "tolerations.value: must be left out where operator is Exists",
        ),
        # the rollout
        ("spec.rollout.strategy", "Canary", "spec.rollout.strategy"),
        ("spec.rollout.promotion", "auto", "spec.rollout.promotion"),
        ("spec.rollout", {"strategy": "Recreate", "promotion": "Manual"}, "rollout.promotion: must be Automatic"),
        ("spec.rollout.rollbackTo", "1.2.0", "spec.rollout.rollbackTo"),
        ("spec.rollout.paused", "yes", "spec.rollout.paused"),
        (
            "spec.rollout.soak",
            {"minSeconds": 60, "maxSeconds": 30},
            "soak.maxSeconds: must be at least soak.minSeconds",
        ),
        ("spec.rollout.soak", {"minSeconds": 601}, "soak.maxSeconds: must be at least soak.minSeconds"),
        ("spec.rollout.soak", {"alpha": 0}, "spec.rollout.soak.alpha"),
        ("spec.rollout.soak", {"alphaPass": 0.6}, "spec.rollout.soak.alphaPass"),
        ("spec.rollout.soak", {"onNoData": "Ignore"}, "spec.rollout.soak.onNoData"),
        ("spec.rollout.soak", {"intervalSeconds": 0}, "spec.rollout.soak.intervalSeconds"),
        ("spec.rollout.checks", {"smoke": {"prompt": ""}}, "spec.rollout.checks.smoke.prompt"),
        ("spec.rollout.progressDeadlineSeconds", 0, "spec.rollout.progressDeadlineSeconds"),
        ("spec.rollout.metrics", {"source": "Statsd"}, "spec.rollout.metrics.source"),
        # the name: it names Services and pods
        ("metadata.name", "c" * 41, "metadata.name: at most 40 characters"),
        ("metadata.name", "7b-chat", "metadata.name: lower-case letters, digits and '-', beginning with a letter"),
        ("metadata.name", "chat.v2", "metadata.name: lower-case letters, digits and '-', beginning with a letter"),
    ],
)
@pytest.mark.case("R57", "T33")
def test_a_bad_field_is_refused_with_its_name(
    control_plane: ControlPlane, crd: str, path: str, value: Any, said: str
) -> None:
    assert said in refusal(control_plane, changed(path, value))


@pytest.mark.parametrize(
    "path",
    [
        "spec",
        "spec.model",
        "spec.model.name",
        "spec.model.version",
        "spec.model.uri",
        "spec.model.sha256",
        "spec.model.storage",
        "spec.model.storage.endpoint",
    ],
)
def test_a_missing_field_is_refused_with_its_name(control_plane: ControlPlane, crd: str, path: str) -> None:
    assert f"{path}: Required value" in refusal(control_plane, without(path))


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://10.96.0.7:9000",
        "https://s3.eu-central-1.amazonaws.com",
        "http://localhost-storage.minio.svc:9000",
        "http://minio-127.svc",
        "http://metadata-store.minio.svc:9000",
        "https://0minio.example.com",
    ],
)
def test_an_endpoint_that_only_looks_like_loopback_is_taken(
    control_plane: ControlPlane, crd: str, endpoint: str
) -> None:
    assert "created" in try_out(control_plane, changed(ENDPOINT, endpoint))


def test_a_name_of_forty_characters_is_taken(control_plane: ControlPlane, crd: str) -> None:
    resource = changed("metadata.name", "c" * names.MAX_NAME)

    assert "created" in try_out(control_plane, resource)


def test_the_models_name_cannot_be_changed(control_plane: ControlPlane, crd: str, namespace: str) -> None:
    create(control_plane, GOOD, f"--namespace={namespace}")
    patch = json.dumps({"spec": {"model": {"name": "other"}}})

    with pytest.raises(ClusterError, match=r"model\.name: cannot be changed; another model is another ModelDeployment"):
        control_plane.kubectl("patch", f"--namespace={namespace}", "mdep", "chat", "--type=merge", f"--patch={patch}")


def test_the_models_version_and_digest_can_be_changed(control_plane: ControlPlane, crd: str, namespace: str) -> None:
    create(control_plane, GOOD, f"--namespace={namespace}")
    patch = json.dumps({"spec": {"model": {"version": "2.0.0", "sha256": "0" * 64}}})

    said = control_plane.kubectl(
        "patch", f"--namespace={namespace}", "mdep", "chat", "--type=merge", f"--patch={patch}"
    )

    assert "patched" in said
