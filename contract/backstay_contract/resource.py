"""The custom resource's spec. Every default stands in these types, goes into the CRD's schema, and nowhere else."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from backstay_contract import location
from backstay_contract.base import Document
from backstay_contract.cache import NODE_ALLOWED, Cache
from backstay_contract.digest import Digest
from backstay_contract.metric import PERPLEXITY_TOLERANCE, MetricName, limit_of
from backstay_contract.profile import COUNT_RULE, HardwareProfile
from backstay_contract.rollback import Rollback
from backstay_contract.rollout import Rollout
from backstay_contract.schema import SecretName, rules
from backstay_contract.serving import Serving


class SecretRef(Document):
    """A Secret in the resource's own namespace."""

    name: SecretName
    """Name of the Secret."""


REFUSED_ENDPOINT = (
    "(?i)^https?://("
    "([^/:]*[.])?localhost|localhost[.]localdomain|ip6-localhost|ip6-loopback|"
    "127[.][^/:]*|0[.][^/:]*|169[.]254[.][^/:]*|"
    "[0-9]+|0x[^/:]*|0[0-9]+[.][^/:]*|"
    "100[.]100[.]100[.]200|([^/:]*[.])?metadata([.]google([.]internal)?)?|instance-data[^/:]*"
    ")[.]?(:|/|$)"
)
"""Loopback, this-host, link-local and metadata addresses, also as one number, in hex and in octal. Names that resolve
to such addresses are refused again where the model is fetched."""


class Storage(Document):
    """Where the model's objects are."""

    model_config = rules(
        (
            f"!self.endpoint.matches('{REFUSED_ENDPOINT}')",
            "storage.endpoint: loopback, link-local and metadata addresses are refused; name the storage's Service",
        ),
    )
    endpoint: Annotated[
        str,
        StringConstraints(pattern=r"^https?://[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/?$", max_length=253),
    ]
    """URL of the S3 endpoint, for example `http://minio.minio.svc:9000`."""
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,32}$")] = "us-east-1"
    """S3 region; MinIO does not care."""
    secret_ref: SecretRef | None = None
    """Secret with the keys accessKey and secretKey; without it objects are read anonymously."""
    cache: Cache = Cache()


class Model(Document):
    """The model that is asked for. Its digest, not its version, says which bytes are served."""

    model_config = rules(
        (
            "self.name == oldSelf.name",
            "model.name: cannot be changed; another model is another ModelDeployment",
        ),
        ("!self.uri.matches('/[.]{1,2}(/|$)')", "model.uri: must not have '.' or '..' between slashes"),
    )
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?$", max_length=100)]
    """Name of the model, as the manifest has it. It cannot be changed."""
    version: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._+-]{0,61}[A-Za-z0-9])?$", max_length=63)
    ]
    """Version of the model, as the manifest has it: for people to read."""
    uri: Annotated[
        str,
        StringConstraints(pattern=location.PATTERN, max_length=location.MAX_LENGTH),
    ]
    """Bucket and prefix that hold manifest.json and the files it lists: `s3://BUCKET/PREFIX`."""
    sha256: Digest
    """Digest of manifest.json, as `backstay push` printed it. A pod that finds other bytes refuses to serve."""
    storage: Storage
    """Where the model's objects are."""


class Baseline(Document):
    """A recorded number and the factor that is tolerated; limit = value × tolerance (÷ where lower is worse)."""

    value: Annotated[float, Field(ge=0, le=1e12)]
    """The recorded number, in the metric's unit."""
    tolerance: Annotated[float, Field(ge=1, le=1000)] = 2.0
    """Factor by which the number may get worse."""


class PerplexityBaseline(Baseline):
    """A recorded perplexity: a factor of two would be another model, so less is tolerated by default."""

    tolerance: Annotated[float, Field(ge=1, le=1000)] = PERPLEXITY_TOLERANCE
    """Factor by which the number may get worse."""


class Baselines(Document):
    """Baselines that override the manifest's, each by its metric. A metric with neither is skipped, visibly."""

    model_config = rules(
        (
            "!has(self.errorRate) || self.errorRate.value <= 1.0",
            "baselines.errorRate.value: is a fraction of requests, at most 1",
        ),
        (
            "!has(self.p99LatencyMs) || self.p99LatencyMs.value > 0.0",
            "baselines.p99LatencyMs.value: must be above 0 ms",
        ),
        (
            "!has(self.ttftP99Ms) || self.ttftP99Ms.value > 0.0",
            "baselines.ttftP99Ms.value: must be above 0 ms",
        ),
        (
            "!has(self.interTokenP99Ms) || self.interTokenP99Ms.value > 0.0",
            "baselines.interTokenP99Ms.value: must be above 0 ms",
        ),
        (
            "!has(self.tokensPerSecond) || self.tokensPerSecond.value > 0.0",
            "baselines.tokensPerSecond.value: must be above 0 tokens/s",
        ),
        (
            "!has(self.perplexity) || self.perplexity.value >= 1.0",
            "baselines.perplexity.value: a perplexity is at least 1",
        ),
    )
    p99_latency_ms: Annotated[Baseline | None, Field(alias="p99LatencyMs")] = None
    """99th percentile of a successful request's duration, in milliseconds."""
    ttft_p99_ms: Annotated[Baseline | None, Field(alias="ttftP99Ms")] = None
    """99th percentile of the time to the first token, in milliseconds."""
    inter_token_p99_ms: Annotated[Baseline | None, Field(alias="interTokenP99Ms")] = None
    """99th percentile of a request's mean time between tokens, in milliseconds."""
    error_rate: Baseline | None = None
    """Fraction of requests that end in an error of the server's."""
    tokens_per_second: Baseline | None = None
    """Tokens per second of a single request that 99 % of requests reach."""
    perplexity: PerplexityBaseline | None = None
    """Perplexity on the manifest's evaluation set: exp of the loss per token. Not judged without a set."""

    def limits(self) -> dict[MetricName, float]:
        """The limit of each baseline that is given, in the metric's unit."""
        given = {
            MetricName.P99_LATENCY: self.p99_latency_ms,
            MetricName.TTFT_P99: self.ttft_p99_ms,
            MetricName.INTER_TOKEN_P99: self.inter_token_p99_ms,
            MetricName.ERROR_RATE: self.error_rate,
            MetricName.TOKENS_PER_SECOND: self.tokens_per_second,
            MetricName.PERPLEXITY: self.perplexity,
        }
        return {name: limit_of(name, b.value, b.tolerance) for name, b in given.items() if b is not None}


class DeletionPolicy(StrEnum):
    DELETE = "Delete"
    """The pods end first, then the Services go."""
    ORPHAN = "Orphan"
    """Everything goes on serving, owned by nobody."""


class NetworkPolicyMode(StrEnum):
    MANAGED = "Managed"
    """The operator makes a NetworkPolicy for the pods, as it was installed to."""
    UNMANAGED = "Unmanaged"
    """It makes none: other people's policies decide."""


class ModelDeploymentSpec(Document):
    """What is asked for: a model, the hardware it was qualified on, and how its rollout is judged."""

    model_config = rules(
        (
            "self.hardwareProfile.gpu == 'none' ? self.hardwareProfile.count == 0 : self.hardwareProfile.count >= 1",
            f"hardwareProfile.count: {COUNT_RULE}",
        ),
    )
    model: Model
    hardware_profile: HardwareProfile = HardwareProfile()
    baselines: Baselines = Baselines()
    replicas: Annotated[int, Field(ge=0, le=1000)] = 1
    """Pods of the active colour. Not part of the revision: a change is no rollout."""
    serving: Serving = Serving()
    rollout: Rollout = Rollout()
    rollback: Rollback = Rollback()
    network_policy: NetworkPolicyMode = NetworkPolicyMode.MANAGED
    """`Managed`: a NetworkPolicy lets clients reach the pods, and only the operator their control port.
    `Unmanaged`: none is made, for namespaces whose own policies shall decide."""
    deletion_policy: DeletionPolicy = DeletionPolicy.DELETE
    """What a deletion of the resource does to its children. `Delete`: the pods end first, then the Services go.
    `Orphan`: everything goes on serving, owned by nobody."""


def parse_spec(spec: dict[str, Any], *, node_cache: bool = True) -> ModelDeploymentSpec:
    """The spec in a resource's JSON; `node_cache`: whether pods may share a folder of their node.

    Raises pydantic.ValidationError, naming the field.
    """
    return ModelDeploymentSpec.model_validate(spec, context={NODE_ALLOWED: node_cache})
