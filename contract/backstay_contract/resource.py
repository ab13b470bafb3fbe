"""The custom resource's spec. Every default stands here, goes into the CRD's schema, and nowhere else."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from backstay_contract.base import Document
from backstay_contract.digest import Digest
from backstay_contract.metric import MetricName, limit_of
from backstay_contract.profile import COUNT_RULE, HardwareProfile

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$"


def _whole_number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Quantity = Annotated[
    str,
    StringConstraints(pattern=QUANTITY, max_length=32),
    BeforeValidator(_whole_number_as_text),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": QUANTITY, "maxLength": 32}),
]
"""An amount as pods write it: `2`, `500m`, `3Gi`; a whole number needs no quotes."""
SecretName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", max_length=253)]
Text = Annotated[str, StringConstraints(max_length=256)]


def rules(*rows: tuple[str, str]) -> ConfigDict:
    """CEL rules of a type: (rule, message) pairs that the API server checks at apply."""
    return ConfigDict(
        json_schema_extra={"x-kubernetes-validations": [{"rule": rule, "message": said} for rule, said in rows]}
    )


class Promotion(StrEnum):
    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class Policy(StrEnum):
    """What to do when a soak ends without an answer."""

    PROMOTE = "Promote"
    HOLD = "Hold"
    ROLLBACK = "Rollback"


class WhenSpecChanges(StrEnum):
    QUEUE = "Queue"
    SUPERSEDE = "Supersede"


class MetricsSource(StrEnum):
    AUTO = "Auto"
    PROMETHEUS = "Prometheus"
    PODS = "Pods"


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
        StringConstraints(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._+=@ -]+)+/?$", max_length=1024),
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

    def limits(self) -> dict[MetricName, float]:
        """The limit of each baseline that is given, in the metric's unit."""
        given = {
            MetricName.P99_LATENCY: self.p99_latency_ms,
            MetricName.TTFT_P99: self.ttft_p99_ms,
            MetricName.INTER_TOKEN_P99: self.inter_token_p99_ms,
            MetricName.ERROR_RATE: self.error_rate,
            MetricName.TOKENS_PER_SECOND: self.tokens_per_second,
        }
        return {name: limit_of(name, b.value, b.tolerance) for name, b in given.items() if b is not None}


class Resources(Document):
    """Compute resources of the serving container, as in a pod. GPUs come from hardwareProfile."""

    requests: dict[Literal["cpu", "memory", "ephemeral-storage"], Quantity] = {}
    """What the scheduler keeps free for each pod."""
    limits: dict[Literal["cpu", "memory", "ephemeral-storage"], Quantity] = {}
    """What each pod may use at most."""


class Toleration(Document):
    """A toleration of a node's taint, as in a pod."""

    model_config = rules(
        ("has(self.key) || self.operator == 'Exists'", "tolerations.key: needed where operator is Equal"),
        (
            "!has(self.value) || self.operator == 'Equal'",
            "tolerations.value: must be left out where operator is Exists",
        ),
    )
    key: Text | None = None
    """Key of the taint; left out, with `Exists`: every taint."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """How the taint's value is compared."""
    value: Text | None = None
    """Value of the taint, for `Equal`."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; left out: every effect."""


class Serving(Document):
    """How the model is served. All of it is part of the revision: a change is a rollout."""

    max_model_len: Annotated[int, Field(ge=16, le=1_048_576)] | None = None
    """Tokens of prompt and answer together; left out: what the model allows."""
    max_num_seqs: Annotated[int, Field(ge=1, le=1024)] = 16
    """Sequences that are decoded at the same time."""
    queue_length: Annotated[int, Field(ge=0, le=100_000)] = 256
    """Requests that may wait; one more is answered 503."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """Type of the numbers that the engine computes with; `auto` takes the quickest that holds the model's accuracy."""
    threads: Annotated[int, Field(ge=1, le=512)] | None = None
    """CPU threads of the engine; left out: the container's CPU limit."""
    image: Annotated[str, StringConstraints(pattern=r"^[^\s]{1,512}$", max_length=512)] | None = None
    """Runtime image; left out: the one that the operator was installed with when the revision was first tried."""
    resources: Resources = Resources()
    """Compute resources of the serving container, as in a pod. GPUs come from hardwareProfile."""
    node_selector: Annotated[dict[str, Text], Field(max_length=32)] = {}
    """Labels that a node must have."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    """Taints of nodes that the pods bear."""


class SmokeCheck(Document):
    """One real inference on every candidate pod; its answer must name the digest."""

    prompt: Annotated[str, StringConstraints(min_length=1, max_length=2048)] = "The capital of France is"
    """Text that is sent."""
    max_tokens: Annotated[int, Field(ge=1, le=64)] = 1
    """Tokens that are asked for."""
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    """Seconds after which an inference without an answer has failed."""


class Checks(Document):
    """What a candidate must pass before the flip."""

    smoke: SmokeCheck = SmokeCheck()


class Soak(Document):
    """The watched time after the flip."""

    model_config = rules(("self.maxSeconds >= self.minSeconds", "soak.maxSeconds: must be at least soak.minSeconds"))
    min_seconds: Annotated[int, Field(ge=0, le=604_800)] = 60
    """Observed seconds that must pass before a `Pass` ends the soak. Seconds without data do not count."""
    max_seconds: Annotated[int, Field(ge=0, le=604_800)] = 600
    """Observed seconds after which onInsufficientData decides."""
    interval_seconds: Annotated[float, Field(ge=0.2, le=300)] = 2.0
    """Seconds between two looks at the metrics."""
    alpha: Annotated[float, Field(gt=0, le=0.5)] = 0.001
    """Chance that a model which holds its baselines is sent back, over the whole attempt, however often one looks."""
    alpha_pass: Annotated[float, Field(gt=0, le=0.5)] = 0.05
    """Chance that a model at its limit is called verified."""
    on_insufficient_data: Policy = Policy.PROMOTE
    """What to do when maxSeconds are over and the requests were too few for a verdict."""
    on_no_data: Policy = Policy.HOLD
    """What to do when there was no data for holdTimeoutSeconds."""
    hold_timeout_seconds: Annotated[int, Field(ge=0, le=604_800)] = 600
    """Seconds without any data after which onNoData decides."""


class Metrics(Document):
    """Where the evidence comes from."""

    source: MetricsSource = MetricsSource.AUTO
    """`Auto` asks the operator's Prometheus and, where there is none or it is away, the pods themselves."""


class Rollout(Document):
    """How a new revision comes into service. None of it is part of the revision."""

    strategy: Literal["BlueGreen"] = "BlueGreen"
    """`BlueGreen`: the candidate comes up beside the active colour."""
    promotion: Promotion = Promotion.AUTOMATIC
    """`Manual`: the flip waits until promote names the attempt."""
    promote: Annotated[str, StringConstraints(max_length=63)] = ""
    """Manual promotion: the id of the attempt (status.attempt.id) that may be flipped to; a stale id does nothing."""
    checks: Checks = Checks()
    soak: Soak = Soak()
    metrics: Metrics = Metrics()
    progress_deadline_seconds: Annotated[int, Field(ge=1, le=604_800)] = 1800
    """Seconds that one attempt may take until the flip; then its candidate is rejected."""
    scale_down_delay_seconds: Annotated[int, Field(ge=0, le=604_800)] = 30
    """Seconds that the losing colour is kept at least; 0: down as soon as it has drained."""
    drain_timeout_seconds: Annotated[int, Field(ge=0, le=86_400)] = 300
    """Seconds that the losing colour may take to finish its requests."""
    when_spec_changes_in_soak: WhenSpecChanges = WhenSpecChanges.QUEUE
    """`Queue`: a third revision waits for the verdict. `Supersede`: flip back first, then try it."""
    retry_token: Annotated[str, StringConstraints(max_length=63)] = ""
    """Change it to try a rejected digest again."""


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


def parse_spec(spec: dict[str, Any]) -> ModelDeploymentSpec:
    """The spec in a resource's JSON. Raises pydantic.ValidationError, naming the field."""
    return ModelDeploymentSpec.model_validate(spec)
