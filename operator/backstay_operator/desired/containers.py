"""The two containers of a serving pod: one pulls and verifies the model, one serves it."""

import json

from backstay_contract.cache import NODE_FOLDER, Cache, CacheKind
from backstay_contract.names import Env, Key, Path, Port
from backstay_contract.profile import NO_GPU
from backstay_contract.resource import ModelDeploymentSpec

from backstay_operator.desired.common import Json
from backstay_operator.rollout.capacity.nodes import GPU_RESOURCE

MODELS_VOLUME = "models"
SCRATCH_VOLUME = "tmp"
DISK = "ephemeral-storage"
CREDENTIALS_VOLUME = "storage-credentials"
LEAST_GRACE_SECONDS = 30
"""Seconds that running requests get at least, whatever drainTimeoutSeconds says."""
UNROUTE_SECONDS = 3
"""Seconds between a pod's end being decided and its SIGTERM: kube-proxy takes it out of the Service meanwhile."""

SECURITY: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def grace_seconds(spec: ModelDeploymentSpec) -> int:
    """Seconds that a pod may take to finish its requests after SIGTERM."""
    return max(LEAST_GRACE_SECONDS, spec.rollout.drain_timeout_seconds)


def pull(spec: ModelDeploymentSpec, image: str, namespace: str) -> Json:
    """The init container: the only one that sees storage credentials, as files."""
    storage = spec.model.storage
    env = _model_env(spec) | {
        Env.MODEL_URI: spec.model.uri,
        Env.STORAGE_ENDPOINT: storage.endpoint,
        Env.STORAGE_REGION: storage.region,
    }
    if storage.cache.size_bytes is not None:
        env[Env.CACHE_BYTES] = str(storage.cache.size_bytes)
    mounts = [_models(spec, namespace), _mount(SCRATCH_VOLUME, "/tmp")]  # noqa: S108 - an emptyDir of its own
    if storage.secret_ref is not None:
        env[Env.STORAGE_CREDENTIALS] = Path.CREDENTIALS
        mounts.append(_mount(CREDENTIALS_VOLUME, Path.CREDENTIALS, read_only=True))
    return {
        **_container("pull", image, env, mounts),
        # A pod is scheduled by the larger of both containers: the same figures cost nothing more.
        "resources": _with_disk(_resources(spec, gpus=False), storage.cache),
    }


def serve(spec: ModelDeploymentSpec, image: str, namespace: str, token_hash: str) -> Json:
    """The serving container."""
    serving = spec.serving
    limits = {str(metric): limit for metric, limit in spec.baselines.limits().items()}
    env = _model_env(spec) | {
        Env.LIMITS: _json(limits),
        Env.CONTROL_TOKEN_SHA256: token_hash,
        Env.HOST: "0.0.0.0",  # noqa: S104 - inside the pod
        Env.PORT: str(Port.HTTP),
        Env.CONTROL_PORT: str(Port.CONTROL),
        Env.GRPC_PORT: str(Port.GRPC),
        Env.MAX_NUM_SEQS: str(serving.max_num_seqs),
        Env.QUEUE_LENGTH: str(serving.queue_length),
        Env.DTYPE: serving.dtype,
        Env.GRACE_SECONDS: str(grace_seconds(spec)),
    }
    if serving.max_model_len is not None:
        env[Env.MAX_MODEL_LEN] = str(serving.max_model_len)
    if serving.quantization != "none":
        env[Env.QUANTIZATION] = serving.quantization
        env[Env.FORCE_QUANTIZATION] = str(int(serving.force_quantization))
    if serving.threads is not None:
        env[Env.THREADS] = str(serving.threads)
    if serving.output_rules:
        env[Env.OUTPUT_RULES] = json.dumps([rule.to_json() for rule in serving.output_rules], separators=(",", ":"))
    if serving.target_latency_ms is not None:
        env[Env.TARGET_LATENCY_MS] = str(serving.target_latency_ms)
    mounts = [
        _models(spec, namespace) | {"readOnly": True},
        _mount(SCRATCH_VOLUME, "/tmp"),  # noqa: S108 - an emptyDir of its own
    ]
    return {
        **_container("serve", image, env, mounts),
        "ports": [
            {"name": Port.HTTP_NAME, "containerPort": Port.HTTP, "protocol": "TCP"},
            {"name": Port.CONTROL_NAME, "containerPort": Port.CONTROL, "protocol": "TCP"},
            {"name": Port.GRPC_NAME, "containerPort": Port.GRPC, "protocol": "TCP"},
        ],
        "resources": _resources(spec, gpus=True),
        **_probes(spec),
        "lifecycle": {"preStop": {"sleep": {"seconds": UNROUTE_SECONDS}}},
    }


def _probes(spec: ModelDeploymentSpec) -> Json:
    ready = {"path": "/readyz", "port": Port.HTTP_NAME}
    alive = {"path": "/healthz", "port": Port.HTTP_NAME}
    return {
        # Every second: the flip waits for it. Loading may take as long as the attempt's deadline allows, which ends
        # the attempt with a better reason than a killed container.
        "startupProbe": _probe(ready, period=1, timeout=5, failures=max(600, spec.rollout.progress_deadline_seconds)),
        # Three in a row: one slow answer under load must not take a pod out of the Service.
        "readinessProbe": _probe(ready, period=1, timeout=5, failures=3),
        "livenessProbe": _probe(alive, period=10, timeout=5, failures=6),
    }


def _probe(get: Json, *, period: int, timeout: int, failures: int) -> Json:
    return {
        "httpGet": get,
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }


def _model_env(spec: ModelDeploymentSpec) -> dict[str, str]:
    return {
        Env.MODEL_NAME: spec.model.name,
        Env.MODEL_VERSION: spec.model.version,
        Env.MODEL_DIGEST: spec.model.sha256,
        Env.MODELS_FOLDER: Path.MODELS,
        Env.HARDWARE_PROFILE: _json(spec.hardware_profile.to_json()),
    }


def _container(verb: str, image: str, env: dict[str, str], mounts: list[Json]) -> Json:
    return {
        "name": verb,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "backstay_runtime", verb],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "terminationMessagePath": Path.TERMINATION,
        "terminationMessagePolicy": "File",
        "securityContext": SECURITY,
        "volumeMounts": mounts,
    }


def _mount(name: str, path: str, *, read_only: bool = False) -> Json:
    return {"name": name, "mountPath": path} | ({"readOnly": True} if read_only else {})


def _models(spec: ModelDeploymentSpec, namespace: str) -> Json:
    """The models folder. On a node each namespace sees its own only: its users may run images of their own there."""
    mount = _mount(MODELS_VOLUME, Path.MODELS)
    return mount | {"subPath": namespace} if spec.model.storage.cache.kind is CacheKind.NODE else mount


def _with_disk(resources: Json, cache: Cache) -> Json:
    """With the room on the node's disk that the pod's own folder may take, unless the spec speaks of it itself."""
    given = {name for part in resources.values() for name in part}
    if cache.kind is not CacheKind.POD or cache.size is None or DISK in given:
        return resources
    return {**resources, "requests": {**resources.get("requests", {}), DISK: cache.size}}


def _models_volume(cache: Cache) -> Json:
    match cache.kind:
        case CacheKind.NODE:
            return {"hostPath": {"path": NODE_FOLDER, "type": "Directory"}}
        case CacheKind.CLAIM:
            return {"persistentVolumeClaim": {"claimName": cache.claim_name}}
        case CacheKind.POD:
            return {"emptyDir": {} if cache.size is None else {"sizeLimit": cache.size}}


def _resources(spec: ModelDeploymentSpec, *, gpus: bool) -> Json:
    asked = spec.serving.resources.to_json()
    body: Json = {part: values for part, values in asked.items() if values}
    if gpus and spec.hardware_profile.gpu != NO_GPU:
        count = str(spec.hardware_profile.count)
        for part in ("requests", "limits"):
            body[part] = {**body.get(part, {}), GPU_RESOURCE: count}
    return body


def volumes(spec: ModelDeploymentSpec) -> list[Json]:
    """The pod's volumes; of the Secret only the two keys, and only as files."""
    models = _models_volume(spec.model.storage.cache)
    body: list[Json] = [{"name": MODELS_VOLUME, **models}, {"name": SCRATCH_VOLUME, "emptyDir": {}}]
    secret = spec.model.storage.secret_ref
    if secret is not None:
        items = [{"key": key, "path": key} for key in (Key.ACCESS, Key.SECRET)]
        body.append(
            {
                "name": CREDENTIALS_VOLUME,
                # Optional, so that the init container starts and says which key is missing: the kubelet would wait
                # for the Secret in silence. It mounts one that comes later at the container's next try.
                "secret": {"secretName": secret.name, "items": items, "defaultMode": 0o440, "optional": True},
            }
        )
    return body


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
