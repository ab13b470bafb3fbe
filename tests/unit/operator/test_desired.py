"""Children as rendered, against golden YAML. After a wanted change: `BACKSTAY_WRITE_GOLDENS=1 pytest …` and read it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from backstay_contract import names
from backstay_contract.names import Env, Label
from backstay_contract.resource import parse_spec
from backstay_contract.status import Colour
from backstay_operator.desired import services, tokens
from backstay_operator.desired.common import Owner
from backstay_operator.desired.deployment import deployment
from backstay_operator.rollout.revision import Wanted, recipe_of
from hypothesis import given
from hypothesis import strategies as st

GOLDENS = Path(__file__).parent / "goldens"
OWNER = Owner("prod", "chat", "7b0c0f5e-0000-4000-8000-000000000001")
DIGEST = "sha256:" + "ab" * 32
MODEL = {
    "name": "smollm2-135m-instruct",
    "version": "1.2.0",
    "uri": "s3://models/smollm2/1.2.0",
    "sha256": DIGEST,
    "storage": {"endpoint": "http://minio.minio.svc:9000"},
}
CPU: dict[str, Any] = {"model": MODEL}
GPU: dict[str, Any] = {
    "model": {**MODEL, "storage": {**MODEL["storage"], "secretRef": {"name": "models-reader"}}},  # type: ignore[dict-item]
    "hardwareProfile": {"gpu": "NVIDIA H100 80GB HBM3", "count": 2, "minMemoryGiB": 70},
    "baselines": {"p99LatencyMs": {"value": 420, "tolerance": 2}, "errorRate": {"value": 0.001}},
    "serving": {
        "maxModelLen": 4096,
        "threads": 4,
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "resources": {"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {"memory": "8Gi"}},
    },
    "rollout": {"drainTimeoutSeconds": 5},
}


def build(spec: dict[str, Any]) -> Wanted:
    return Wanted("0123456789ab", recipe_of(parse_spec(spec), "registry.example/runtime:1"))


def render(spec: dict[str, Any]) -> dict[str, Any]:
    return deployment(
        OWNER,
        parse_spec(spec),
        Colour.GREEN,
        build(spec),
        attempt="0123456789ab-7",
        replicas=3,
        token_hash=tokens.hash_of("t"),
    )


def compare(name: str, body: dict[str, Any]) -> None:
    path = GOLDENS / f"{name}.yaml"
    text = yaml.safe_dump(body, sort_keys=False, width=110)
    if os.environ.get("BACKSTAY_WRITE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_a_deployment_on_cpu_with_defaults() -> None:
    compare("deployment-cpu", render(CPU))


def test_a_deployment_on_gpus_with_everything_set() -> None:
    compare("deployment-gpu", render(GPU))


def test_the_active_service_selects_nothing_until_the_first_flip() -> None:
    compare("service-active", services.active(OWNER))
    assert services.selected(services.active(OWNER)) is None


def test_the_preview_service_selects_nothing_at_rest() -> None:
    compare("service-preview", services.preview(OWNER))


def pod(spec: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = render(spec)["spec"]["template"]["spec"]
    return body


def env(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"]}


def test_only_the_init_container_sees_storage_credentials_and_only_as_files() -> None:
    body = pod(GPU)
    (pull,), (serve,) = body["initContainers"], body["containers"]
    assert "storage-credentials" in {mount["name"] for mount in pull["volumeMounts"]}
    assert "storage-credentials" not in {mount["name"] for mount in serve["volumeMounts"]}
    assert Env.STORAGE_CREDENTIALS in env(pull)
    assert not [name for name in env(serve) if "STORAGE" in name]
    assert all("valueFrom" not in one for container in (pull, serve) for one in container["env"])
    (secret,) = (volume["secret"] for volume in body["volumes"] if "secret" in volume)
    assert [item["key"] for item in secret["items"]] == ["accessKey", "secretKey"]


def test_without_a_secret_objects_are_read_anonymously() -> None:
    body = pod(CPU)
    assert Env.STORAGE_CREDENTIALS not in env(body["initContainers"][0])
    assert not [volume for volume in body["volumes"] if "secret" in volume]


def test_the_models_folder_is_read_only_where_it_is_served() -> None:
    (serve,) = pod(CPU)["containers"]
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in serve["volumeMounts"]}
    assert mounts == {"/models": True, "/tmp": False}


@pytest.mark.parametrize("spec", [CPU, GPU])
def test_pods_are_hardened(spec: dict[str, Any]) -> None:
    body = pod(spec)
    assert body["automountServiceAccountToken"] is False
    assert body["enableServiceLinks"] is False
    assert body["securityContext"]["runAsNonRoot"] is True
    assert body["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*body["initContainers"], *body["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }


def test_the_pod_holds_the_tokens_hash_and_never_the_token() -> None:
    secret = tokens.token(b"0123456789abcdef", OWNER.uid)
    body = deployment(
        OWNER, parse_spec(CPU), Colour.BLUE, build(CPU), attempt="a-1", replicas=1, token_hash=tokens.hash_of(secret)
    )
    text = json.dumps(body)
    assert tokens.hash_of(secret) in text
    assert secret not in text


def test_two_resources_have_different_tokens() -> None:
    key = b"0123456789abcdef"
    assert tokens.token(key, "a") != tokens.token(key, "b")
    assert tokens.token(key, "a") == tokens.token(key, "a")


def test_limits_travel_to_the_pod_in_the_metrics_units() -> None:
    (serve,) = pod(GPU)["containers"]
    assert json.loads(env(serve)[Env.LIMITS]) == {"p99LatencyMs": 840.0, "errorRate": 0.002}
    assert env(pod(CPU)["containers"][0])[Env.LIMITS] == "{}"


@pytest.mark.parametrize(("drain", "grace"), [(0, 30), (30, 30), (300, 300)])
def test_a_pod_may_always_finish_its_requests(drain: int, grace: int) -> None:
    spec = {**CPU, "rollout": {"drainTimeoutSeconds": drain}}
    body = pod(spec)
    assert env(body["containers"][0])[Env.GRACE_SECONDS] == str(grace)
    assert body["terminationGracePeriodSeconds"] == grace + 10


def test_the_deployments_selector_names_the_colour_and_never_the_attempt() -> None:
    body = render(CPU)
    chosen = body["spec"]["selector"]["matchLabels"]
    assert chosen == {Label.RESOURCE: "chat", Label.COLOUR: "green"}
    assert chosen.items() <= body["spec"]["template"]["metadata"]["labels"].items()


def test_the_attempt_stands_on_the_deployment_and_its_pods() -> None:
    body = render(CPU)
    assert body["metadata"]["annotations"][names.Annotation.ATTEMPT] == "0123456789ab-7"
    template = body["spec"]["template"]["metadata"]
    assert template["annotations"][names.Annotation.ATTEMPT] == template["labels"]["backstay.dev/attempt"]


def test_a_gpu_is_asked_for_and_looked_for_by_its_label() -> None:
    body = pod(GPU)
    assert body["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert "nvidia.com/gpu" not in body["initContainers"][0]["resources"]["limits"]
    assert body["nodeSelector"] == {"zone": "a", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


@pytest.mark.parametrize("value", ["none", "red", "", None])
def test_a_selector_without_a_colour_selects_none(value: str | None) -> None:
    assert services.selected({"spec": {"selector": {Label.COLOUR: value} if value is not None else None}}) is None


def test_an_older_revision_is_rendered_from_its_recipe_whatever_the_spec_asks_for_now() -> None:
    asked = parse_spec(GPU | {"model": {**MODEL, "version": "2.0.0", "sha256": "sha256:" + "cd" * 32}})
    old = deployment(OWNER, asked, Colour.GREEN, build(CPU), attempt="a-1", replicas=1, token_hash="h")
    new = parse_spec(CPU).with_(rollout=asked.rollout)
    assert old == deployment(OWNER, new, Colour.GREEN, build(CPU), attempt="a-1", replicas=1, token_hash="h")


@given(st.integers(0, 1000), st.sampled_from(Colour), st.text("abc-0123", min_size=1, max_size=20))
def test_rendering_is_a_pure_function_of_its_arguments(replicas: int, colour: Colour, attempt: str) -> None:
    def once() -> dict[str, Any]:
        spec = parse_spec(GPU)
        return deployment(OWNER, spec, colour, build(GPU), attempt=attempt, replicas=replicas, token_hash="h")

    assert once() == once()
    assert once()["spec"]["replicas"] == replicas
    assert once()["metadata"]["name"] == f"chat-{colour}"


@pytest.mark.parametrize(
    ("cache", "volume", "mount"),
    [
        ({"size": "20Gi"}, {"emptyDir": {"sizeLimit": "20Gi"}}, {}),
        ({"kind": "Claim", "claimName": "c"}, {"persistentVolumeClaim": {"claimName": "c"}}, {}),
        (
            {"kind": "Node"},
            {"hostPath": {"path": "/var/lib/backstay/models", "type": "Directory"}},
            {"subPath": "prod"},
        ),
    ],
)
def test_models_lie_where_the_spec_says_and_the_server_can_only_read_them(
    cache: dict[str, str], volume: dict[str, Any], mount: dict[str, str]
) -> None:
    storage = {**MODEL["storage"], "cache": cache}  # type: ignore[dict-item]
    pod = render({"model": {**MODEL, "storage": storage}})["spec"]["template"]["spec"]

    assert pod["volumes"][0] == {"name": "models"} | volume
    expected = {"name": "models", "mountPath": "/models"} | mount
    assert pod["initContainers"][0]["volumeMounts"][0] == expected
    assert pod["containers"][0]["volumeMounts"][0] == expected | {"readOnly": True}
    sizes = [one["value"] for one in pod["initContainers"][0]["env"] if one["name"] == Env.CACHE_BYTES]
    assert sizes == ([str(20 * 2**30)] if "size" in cache else [])


@pytest.mark.case("T30")
@pytest.mark.parametrize(
    ("cache", "resources", "wanted"),
    [
        ({"size": "20Gi"}, {}, "20Gi"),
        ({}, {}, None),
        ({"size": "20Gi"}, {"limits": {"ephemeral-storage": "5Gi"}}, None),
        ({"size": "20Gi"}, {"requests": {"ephemeral-storage": "5Gi"}}, "5Gi"),
        ({"kind": "Node", "size": "20Gi"}, {}, None),
    ],
)
def test_the_scheduler_is_told_how_much_of_the_nodes_disk_a_model_may_take(
    cache: dict[str, str], resources: dict[str, Any], wanted: str | None
) -> None:
    storage = {**MODEL["storage"], "cache": cache}  # type: ignore[dict-item]
    pod = render({"model": {**MODEL, "storage": storage}, "serving": {"resources": resources}})["spec"]["template"]
    asked = pod["spec"]["initContainers"][0]["resources"].get("requests", {})

    assert asked.get("ephemeral-storage") == wanted
