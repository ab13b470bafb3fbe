"""The CRD on a real API server: what it takes, what it fills in, what it shows."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from backstay_cluster.control_plane import ControlPlane
from backstay_contract import names, resource, status
from backstay_contract.evidence import MetricVerdict, VerdictKind
from backstay_contract.metric import MetricName

pytestmark = pytest.mark.control_plane

DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
SAMPLES = sorted((Path(__file__).parents[3] / "manifests" / "samples").glob("*.yaml"))
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)

Kubectl = Callable[..., str]


def chat(**spec: Any) -> dict[str, Any]:
    """The smallest resource, with further fields of the spec."""
    return {
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
            **spec,
        },
    }


@pytest.fixture
def kubectl(control_plane: ControlPlane, crd: str, namespace: str) -> Kubectl:
    """kubectl in the test's namespace, where the CRD is established."""

    def run(*arguments: str, given: dict[str, Any] | None = None) -> str:
        text = None if given is None else json.dumps(given)
        return control_plane.kubectl(f"--namespace={namespace}", *arguments, text=text)

    return run


def stored(kubectl: Kubectl) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubectl("get", "mdep", "chat", "--output=json"))
    return found


def test_the_schema_is_structural_and_the_names_are_accepted(control_plane: ControlPlane, crd: str) -> None:
    conditions = json.loads(control_plane.kubectl("get", "crd", crd, "--output=jsonpath={.status.conditions}"))

    assert {item["type"]: item["status"] for item in conditions} == {"NamesAccepted": "True", "Established": "True"}


@pytest.mark.case("T21", "T38")
def test_client_side_apply_twice_changes_nothing_the_second_time(kubectl: Kubectl) -> None:
    assert "created" in kubectl("apply", "--filename=-", given=chat())
    assert "unchanged" in kubectl("apply", "--filename=-", given=chat())
    assert stored(kubectl)["metadata"]["generation"] == 1


def test_server_side_apply_is_taken(kubectl: Kubectl) -> None:
    assert "serverside-applied" in kubectl("apply", "--server-side", "--filename=-", given=chat())


@pytest.mark.case("R13")
def test_a_left_out_field_has_the_default_of_the_contract(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", given=chat())

    spec = stored(kubectl)["spec"]
    assert resource.parse_spec(spec) == resource.parse_spec(chat()["spec"])
    assert spec["replicas"] == 1
    assert spec["hardwareProfile"] == {"gpu": "none", "count": 0, "minMemoryGiB": 0}
    assert spec["rollout"]["soak"]["maxSeconds"] == 600
    assert spec["model"]["storage"]["region"] == "us-east-1"


def test_defaults_fill_in_beside_fields_that_are_given(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", given=chat(rollout={"soak": {"minSeconds": 5}}))

    rollout = stored(kubectl)["spec"]["rollout"]
    assert rollout["soak"] == {**rollout["soak"], "minSeconds": 5, "maxSeconds": 600, "onNoData": "Hold"}
    assert rollout["checks"]["smoke"]["maxTokens"] == 1


@pytest.mark.case("R13")
def test_an_explicit_zero_is_kept(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", given=chat(replicas=0, rollout={"scaleDownDelaySeconds": 0}))

    spec = stored(kubectl)["spec"]
    assert (spec["replicas"], spec["rollout"]["scaleDownDelaySeconds"]) == (0, 0)


@pytest.mark.parametrize(
    "spec",
    [
        {"hardwareProfile": {"gpu": "NVIDIA-H100-80GB-HBM3", "count": 1, "minMemoryGiB": 70, "driver": ">=550"}},
        {"serving": {"resources": {"limits": {"cpu": 2, "memory": "3Gi"}}}},
        {"serving": {"tolerations": [{"operator": "Exists"}]}},
        {"baselines": {"p99LatencyMs": {"value": 420}, "errorRate": {"value": 0, "tolerance": 1}}},
        {"rollout": {"promotion": "Manual", "whenSpecChangesInSoak": "Supersede", "retryToken": "2026-01-02"}},
    ],
)
def test_what_the_api_server_takes_the_contract_reads_back(kubectl: Kubectl, spec: dict[str, Any]) -> None:
    kubectl("apply", "--filename=-", given=chat(**spec))

    assert resource.parse_spec(stored(kubectl)["spec"]) == resource.parse_spec(chat(**spec)["spec"])


def test_kubectl_get_shows_what_happens_and_why(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", given=chat())
    write_status(kubectl, soaking())

    header, row = kubectl("get", "mdep").splitlines()
    columns = ["NAME", "PHASE", "ACTIVE", "CANDIDATE", "READY", "REASON", "AGE"]
    assert header.split() == columns
    assert row.split()[:-1] == ["chat", "Soaking", "1.0.0", "2.0.0", "1/2", "Soaking"]
    assert re.search(r"MESSAGE +AGE", kubectl("get", "mdep", "--output=wide"))


def test_the_resource_is_listed_with_all_others(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", given=chat())

    assert "modeldeployment.backstay.dev/chat" in kubectl("get", "all", "--output=name")


def test_a_written_status_reads_back_equal(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", given=chat())
    wanted = soaking()

    write_status(kubectl, wanted)

    assert status.parse_status(stored(kubectl)["status"]) == wanted


def test_writing_the_status_leaves_the_generation_and_the_spec_alone(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", given=chat())
    before = stored(kubectl)

    write_status(kubectl, soaking())

    after = stored(kubectl)
    assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], 1)


def test_a_status_in_an_applied_file_is_ignored(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", given={**chat(), "status": {"phase": "Serving"}})

    assert stored(kubectl).get("status", {}).get("phase") != "Serving"


def test_kubectl_explain_tells_what_a_field_means(kubectl: Kubectl) -> None:
    said = kubectl("explain", "modeldeployment.spec.model.sha256")

    assert "backstay push" in said


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_taken(kubectl: Kubectl, sample: Path) -> None:
    said = kubectl("create", f"--filename={sample}", "--validate=strict")

    assert "modeldeployment.backstay.dev" in said


def test_there_are_samples() -> None:
    assert {path.stem for path in SAMPLES} >= {"cpu", "gpu", "manual-promotion"}


def write_status(kubectl: Kubectl, wanted: status.ModelDeploymentStatus) -> None:
    patch = json.dumps({"status": wanted.to_json()})
    kubectl("patch", "mdep", "chat", "--subresource=status", "--type=merge", f"--patch={patch}")


def soaking() -> status.ModelDeploymentStatus:
    """A status with every part filled in."""
    side = status.Side(colour=status.Colour.BLUE, version="1.0.0", digest=DIGEST, revision="r1", ready=1, replicas=2)
    attempt = status.Attempt(
        id="a1", revision="r2", digest=DIGEST, version="2.0.0", colour=status.Colour.GREEN,
        image="backstay/runtime:1", started_at=NOW, switched_at=NOW, observed_seconds=1.5,
        limits=(status.MetricLimit(metric=MetricName.P99_LATENCY, limit=840.0),),
    )  # fmt: skip
    return status.ModelDeploymentStatus(
        observed_generation=1,
        phase=status.Phase.SOAKING,
        reason="Soaking",
        message="The new active colour is watched.",
        active=side,
        candidate=side.with_(colour=status.Colour.GREEN, version="2.0.0"),
        ready="1/2",
        attempt=attempt,
        verdicts=(
            MetricVerdict(
                metric=MetricName.P99_LATENCY, verdict=VerdictKind.INCONCLUSIVE, reason="TooFewRequests",
                message="n=7", at=NOW, n=7, k=1, estimate=1 / 7, limit=840.0,
            ),
        ),
        rejected=(
            status.Rejection(
                digest=DIGEST, revision="r0", version="0.9", attempt="a0", reason="Breach",
                metric=MetricName.ERROR_RATE, observed=0.5, limit=0.01, at=NOW,
            ),
        ),
        history=(
            status.HistoryEntry(
                revision="r1", digest=DIGEST, version="1.0.0", image="backstay/runtime:1", verified=True,
                reason="Verified", at=NOW,
            ),
        ),
        conditions=(
            status.Condition(
                type="Ready", status="True", reason="Ready", last_transition_time=NOW, observed_generation=1
            ),
        ),
        last_failure=status.Failure(reason="CrashLoop", message="exit 1", exit_code=1, pod="chat-green-x", at=NOW),
    )  # fmt: skip
