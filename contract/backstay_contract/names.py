"""Every name that two parts must spell the same way: labels, annotations, ports, environment, metrics, object keys."""

from typing import Final

GROUP: Final = "backstay.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "ModelDeployment"
PLURAL: Final = "modeldeployments"
SINGULAR: Final = "modeldeployment"
SHORT: Final = "mdep"
FIELD_MANAGER: Final = "backstay-operator"

MAX_NAME: Final = 40
"""Characters of a resource's name. A pod's name is its host name too, which holds 63 characters, and adds 23 to the
resource's: `-green`, `-` and 10 of the ReplicaSet's hash, `-` and 5 of its own. Longer ones would be cut."""


class Label:
    """Labels on children. Digests are shortened: a label's value holds 63 characters, a digest has 64."""

    NAME = "app.kubernetes.io/name"
    INSTANCE = "app.kubernetes.io/instance"
    MANAGED_BY = "app.kubernetes.io/managed-by"
    COMPONENT = "app.kubernetes.io/component"
    RESOURCE = f"{GROUP}/modeldeployment"
    COLOUR = f"{GROUP}/colour"
    REVISION = f"{GROUP}/revision"


MANAGED_BY: Final = "backstay"


class Annotation:
    """Annotations on children and on the resource."""

    DIGEST = f"{GROUP}/digest"
    MODEL_VERSION = f"{GROUP}/model-version"
    ATTEMPT = f"{GROUP}/attempt"
    NOTICE = f"{GROUP}/notice"
    """On an Event: the notice as JSON, as it is sent to those who are notified."""
    NOTIFIED = f"{GROUP}/notified"
    """On an Event, with a dash and the sink's name behind it: when that sink got it."""


class Port:
    """TCP ports of a serving pod."""

    HTTP = 8000
    CONTROL = 8081
    HTTP_NAME = "http"
    CONTROL_NAME = "control"
    GRPC = 8001
    GRPC_NAME = "grpc"
    SERVICE = 80


class Path:
    """Folders and files inside a serving pod."""

    MODELS = "/models"
    TERMINATION = "/dev/termination-log"
    CREDENTIALS = "/etc/backstay/storage"


class Env:
    """Environment variables of a serving pod's containers."""

    MODEL_NAME = "BACKSTAY_MODEL_NAME"
    MODEL_VERSION = "BACKSTAY_MODEL_VERSION"
    MODEL_URI = "BACKSTAY_MODEL_URI"
    MODEL_DIGEST = "BACKSTAY_MODEL_DIGEST"
    MODELS_FOLDER = "BACKSTAY_MODELS_FOLDER"
    STORAGE_ENDPOINT = "BACKSTAY_STORAGE_ENDPOINT"
    STORAGE_REGION = "BACKSTAY_STORAGE_REGION"
    STORAGE_CREDENTIALS = "BACKSTAY_STORAGE_CREDENTIALS"
    """Folder with the files accessKey and secretKey, mounted from the Secret; read again at each fetch."""
    CACHE_BYTES = "BACKSTAY_CACHE_BYTES"
    """Bytes that all models in the models folder may take together."""
    HARDWARE_PROFILE = "BACKSTAY_HARDWARE_PROFILE"
    """JSON of the resource's hardware profile."""
    LIMITS = "BACKSTAY_LIMITS"
    """JSON object: metric name -> limit in the metric's unit."""
    CONTROL_TOKEN_SHA256 = "BACKSTAY_CONTROL_TOKEN_SHA256"
    HOST = "BACKSTAY_HOST"
    PORT = "BACKSTAY_PORT"
    CONTROL_PORT = "BACKSTAY_CONTROL_PORT"
    GRPC_PORT = "BACKSTAY_GRPC_PORT"
    """Left out: no gRPC."""
    MAX_MODEL_LEN = "BACKSTAY_MAX_MODEL_LEN"
    MAX_NUM_SEQS = "BACKSTAY_MAX_NUM_SEQS"
    QUEUE_LENGTH = "BACKSTAY_QUEUE_LENGTH"
    DTYPE = "BACKSTAY_DTYPE"
    QUANTIZATION = "BACKSTAY_QUANTIZATION"
    FORCE_QUANTIZATION = "BACKSTAY_FORCE_QUANTIZATION"
    """1: take the quantization although it is slower than full precision."""
    GRACE_SECONDS = "BACKSTAY_GRACE_SECONDS"
    THREADS = "BACKSTAY_THREADS"
    OUTPUT_RULES = "BACKSTAY_OUTPUT_RULES"
    """JSON list of the resource's output rules."""
    BATCHING = "BACKSTAY_BATCHING"
    """continuous | dynamic | static: the latter two are there to be compared with."""
    TARGET_LATENCY_MS = "BACKSTAY_TARGET_LATENCY_MS"
    TERMINATION_LOG = "BACKSTAY_TERMINATION_LOG"


class Key:
    """Keys of a storage Secret."""

    ACCESS = "accessKey"
    SECRET = "secretKey"


class Header:
    """HTTP headers of the runtime's answers."""

    DIGEST = "x-model-digest"
    TRACE = "x-trace-id"


class AlertLabel:
    """Labels of an alert by which the operator knows whom it is about."""

    NAMESPACE = "namespace"
    RESOURCE = "modeldeployment"
    DIGEST = "digest"


class RuntimeMetric:
    """Prometheus metrics of the runtime; each has the labels model, version and digest, all series start at 0."""

    JUDGED = "backstay_requests_judged_total"
    """label metric: requests that count for that metric's evidence. A request counts when it ends well or when
    it crosses the limit in flight, whichever is first; errors and client cancels that came before do not."""
    SLOW = "backstay_requests_beyond_limit_total"
    """labels metric, limit: those of them beyond the limit, counted at the moment of crossing."""
    FINISHED = "backstay_requests_finished_total"
    """label outcome: ok | error | cancelled | rejected. Error rate = error / (ok + error)."""
    REQUEST_SECONDS = "backstay_request_duration_seconds"
    TTFT_SECONDS = "backstay_time_to_first_token_seconds"
    INTER_TOKEN_SECONDS = "backstay_inter_token_seconds"
    QUEUE_SECONDS = "backstay_queue_wait_seconds"
    PREFILL_SECONDS = "backstay_prefill_seconds"
    DECODE_SECONDS = "backstay_decode_seconds"
    IN_FLIGHT = "backstay_requests_in_flight"
    RUNNING = "backstay_sequences_running"
    WAITING = "backstay_sequences_waiting"
    PREEMPTIONS = "backstay_preemptions_total"
    TOKENS_IN = "backstay_prompt_tokens_total"
    TOKENS_OUT = "backstay_generated_tokens_total"
    BATCH_SIZE = "backstay_batch_size"
    KV_USED = "backstay_kv_blocks_used"
    KV_TOTAL = "backstay_kv_blocks"
    PREFIX_TOKENS = "backstay_prefix_cache_queried_tokens_total"
    PREFIX_HITS = "backstay_prefix_cache_hit_tokens_total"
    OUTPUT_RULES = "backstay_output_rules_total"
    """labels rule and fallback: answers that broke a rule."""
    ADMITTED = "backstay_sequences_admitted_limit"
    """Sequences that may run or wait at present; it moves where a target latency is set."""
    LOAD_SECONDS = "backstay_model_load_seconds"
    START_SECONDS = "backstay_start_seconds"
    """Label step: verify, prepare, weights, warm_up."""
    EVALUATION_ROUNDS = "backstay_evaluation_rounds_total"
    """Times that the whole evaluation set was computed."""
    EVALUATION_NLL = "backstay_evaluation_nll_total"
    """Sum of -ln p over the predicted tokens of all rounds, in nats; with the next one a perplexity over time."""
    EVALUATION_TOKENS = "backstay_evaluation_tokens_total"
    EVALUATION_SECONDS = "backstay_evaluation_seconds_total"
    """Seconds of computing that the rounds took."""
    EVALUATION_ITEMS = "backstay_evaluation_items"
    """Texts of the evaluation set; this and the next five speak of the last whole round."""
    EVALUATION_BROKEN = "backstay_evaluation_broken_items"
    """Those of them whose loss is not a number."""
    EVALUATION_RECORDED = "backstay_evaluation_recorded_perplexity"
    EVALUATION_EXCESS = "backstay_evaluation_excess_nats"
    """Mean of new minus recorded loss per token: the log of new over recorded perplexity."""
    EVALUATION_ERROR = "backstay_evaluation_excess_error_nats"
    """Its standard error, from the differences between the texts."""
    EVALUATION_DEGREES = "backstay_evaluation_excess_degrees"
    """Degrees of freedom of that error."""
    MODE = "backstay_mode"
    """label mode: each of backstay_contract.mode.Mode; 1 for the present one."""
    BUILD_INFO = "backstay_build_info"


class Outcome:
    """Values of RuntimeMetric.FINISHED's label `outcome`."""

    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


MANIFEST_FILE: Final = "manifest.json"


def format_limit(limit: float) -> str:
    """The label value of a limit: the shortest text that reads back as the same number."""
    return repr(float(limit))


def deployment(resource: str, colour: str) -> str:
    """Name of a colour's Deployment."""
    return f"{resource}-{colour}"


def preview(resource: str) -> str:
    """Name of the Service that selects the candidate."""
    return f"{resource}-preview"


def pods_of(resource: str, colour: str) -> str:
    """The label selector of a colour's pods, as text: what autoscalers count is the active colour's."""
    return f"{Label.RESOURCE}={resource},{Label.COLOUR}={colour}"
