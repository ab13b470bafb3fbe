"""Times that a judge looks at again: as scrapes, as a recording, and what it is judged by."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from backstay_cli.main import app
from backstay_cli.replay import recording
from backstay_cli.replay.scrapes import Scrape, parse
from backstay_contract.manifest import Architecture, Manifest, ModelFile, RecordedBaseline
from backstay_contract.measurement import Measurement
from backstay_contract.metric import MetricName
from backstay_contract.names import RuntimeMetric
from typer.testing import CliRunner

P99 = MetricName.P99_LATENCY
DIGEST = "sha256:" + "9f" * 32
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()
LIMIT = 840.0
MANIFEST = Manifest(
    name="chat",
    version="1.0.0",
    files=(ModelFile(path="model.safetensors", size=1, sha256=DIGEST),),
    architecture=Architecture(family="llama"),
    baselines={P99: RecordedBaseline(value=420, unit="ms", measured=Measurement(method="declared"))},
)
RESOURCE = f"""
apiVersion: backstay.dev/v1alpha1
kind: ModelDeployment
metadata: {{name: chat}}
spec:
  model:
    name: chat
    version: 1.0.0
    uri: s3://models/chat/1.0.0
    sha256: {DIGEST}
    storage: {{endpoint: "http://minio:9000"}}
  baselines: {{p99LatencyMs: {{value: 420, tolerance: 2}}}}
  rollout: {{soak: {{minSeconds: 4, intervalSeconds: 1, alpha: 0.01}}}}
"""


def metrics(judged: int, slow: int, *, digest: str = DIGEST, errors: int = 0) -> str:
    """A pod's /metrics text."""
    who = f'model="chat",version="1.0.0",digest="{digest}"'
    return (
        f'{RuntimeMetric.JUDGED}{{{who},metric="p99LatencyMs"}} {judged}\n'
        f'{RuntimeMetric.SLOW}{{{who},metric="p99LatencyMs",limit="840.0"}} {slow}\n'
        f'{RuntimeMetric.FINISHED}{{{who},outcome="ok"}} {judged - errors}\n'
        f'{RuntimeMetric.FINISHED}{{{who},outcome="error"}} {errors}\n'
        f"process_start_time_seconds {BEGIN - 60}\n"
    )


Counts = Sequence[tuple[int, int]]
"""Requests, and those of them beyond the limit, second by second."""


def scrapes(steps: Counts, pods: str = "ab") -> list[Scrape]:
    """A scrape a second of pods that all get the same."""
    found, n, k = [], 0, 0
    for second, (more, slow) in enumerate([(0, 0), *steps]):
        n, k = n + more, k + slow
        found += [Scrape(BEGIN + second, pod, parse(metrics(n, k), pod, BEGIN + second)) for pod in pods]
    return found


def record(path: Path, steps: Counts, pods: str = "ab") -> Path:
    """The same as a recording."""
    n = k = 0
    with path.open("w") as file:
        for second, (more, slow) in enumerate([(0, 0), *steps]):
            n, k = n + more, k + slow
            file.writelines(recording.line(BEGIN + second, pod, metrics=metrics(n, k)) for pod in pods)
    return path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["judge", *map(str, arguments)])


GOOD, BAD, SLOW_LATER = [(50, 0)] * 20, [(5, 5)] * 10, [(20, 0)] * 10 + [(20, 16)] * 10
