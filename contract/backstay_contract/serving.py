"""How a model is served: the part of the spec that every pod gets, and that is part of the revision."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from backstay_contract.base import Document
from backstay_contract.output import OutputRule
from backstay_contract.schema import Quantity, Text, rules


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
    target_latency_ms: Annotated[float, Field(gt=0, le=3_600_000)] | None = None
    """Milliseconds that an answer should take on average: while answers take half as long again, fewer requests are let
    in, and more are answered 503; left out: only queueLength limits them."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """How weights are held; on a GPU also what is computed in (a CPU computes in float32). `auto`: float32 on a CPU,
    float16 on a GPU."""
    quantization: Literal["none", "int8", "int4"] = "none"
    """Bits of the weights; all else keeps its type. int8 has a scale for each output channel, int4 one for 32 weights.
    Where it would be slower than full precision, the pod refuses it, with the figures."""
    force_quantization: bool = False
    """Take the quantization although it is slower: it still needs less memory."""
    threads: Annotated[int, Field(ge=1, le=512)] | None = None
    """CPU threads of the engine; left out: the container's CPU limit."""
    output_rules: Annotated[tuple[OutputRule, ...], Field(max_length=8)] = ()
    """Rules that every answer is held against, in this order."""
    image: Annotated[str, StringConstraints(pattern=r"^[^\s]{1,512}$", max_length=512)] | None = None
    """Runtime image; left out: the one that the operator was installed with when the revision was first tried."""
    resources: Resources = Resources()
    """Compute resources of the serving container, as in a pod. GPUs come from hardwareProfile."""
    node_selector: Annotated[dict[str, Text], Field(max_length=32)] = {}
    """Labels that a node must have."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    """Taints of nodes that the pods bear."""
