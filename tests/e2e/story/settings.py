"""The demo's names and numbers."""

from typing import Any, Final

SYSTEM: Final = "backstay-system"
"""Namespace of the operator, as manifests/install.yaml has it."""
DEMO: Final = "backstay-demo"
"""Namespace of the model's resource, its pods and the load."""
MARK: Final = "backstay.dev/demo"
"""Label of the namespaces that the demo made: only those does it delete."""
RESOURCE: Final = "chat"
MODEL: Final = "smollm2-135m-instruct"
BUCKET: Final = "backstay-demo"
READER: Final = "models-reader"
"""Secret with the keys for the object storage."""
STORAGE: Final = "http://minio.minio.svc:9000"
PROMETHEUS: Final = "http://prometheus.monitoring.svc:9090"

FIRST: Final = "1.0.0"
LIGHTER: Final = "1.1.0"
SLOWER: Final = "2.0.0"

KINDS: Final = ("new", "kept")
"""Kinds of connections that the load uses at the same time."""
BUSY: Final = 0.5
"""The load is to keep one engine busy for this part of the time: queues of a loaded machine are no news."""
LOWEST_RATE: Final = 1.0
HIGHEST_RATE: Final = 6.0
"""Requests per second of all kinds together."""
PROBES: Final = 30
"""Requests, one after the other, that the rate is chosen by."""
CONNECTIONS: Final = 4
"""Connections that the load of kind `kept` keeps."""
MAX_TOKENS: Final = 2
WARM_UP_SECONDS: Final = 3.0
"""Answers of this time after the load began are not measured."""
SAMPLES: Final = 240
"""Requests that the baseline of v1 is measured on; at least 200."""
TOLERANCE: Final = 2.0
MOVE_SECONDS: Final = 2.0
"""Seconds after a flip in which kept connections must have moved to the winner."""

SERVING: Final[dict[str, Any]] = {
    "maxModelLen": 512,
    "maxNumSeqs": 8,
    "threads": 1,
    "resources": {
        "requests": {"cpu": "200m", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "4Gi"},
    },
}
ROLLOUT: Final[dict[str, Any]] = {
    "soak": {"minSeconds": 15, "maxSeconds": 900, "intervalSeconds": 1},
    "progressDeadlineSeconds": 300,
    "scaleDownDelaySeconds": 5,
    "drainTimeoutSeconds": 60,
}
FIRST_SOAK_SECONDS: Final = 3
"""Soak of v1, which has no baselines to be judged by."""

STARTS_WITHIN: Final = 240.0
"""Seconds until a candidate is ready, before the demo gives up."""
SOAKS_WITHIN: Final = 930.0
"""Seconds until a soak ends, before the demo gives up."""
ANSWERED_WITHIN: Final = 70.0
"""Seconds until every request has been answered or given up: more than the clients wait."""
WATCHED_AFTER_REAPPLY: Final = 8.0
"""Seconds in which nothing may be created after the rejected resource was applied again."""
