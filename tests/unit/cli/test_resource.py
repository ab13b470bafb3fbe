"""ModelDeployments: rendered, shown, and asked to try again."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from backstay_cli.errors import CliError, Exit
from backstay_cli.resource import ask, view
from backstay_cli.resource.cluster import failure
from backstay_cli.resource.render import resource, to_yaml
from backstay_contract.location import Location
from backstay_contract.manifest import Architecture, Manifest, ModelFile, RecordedBaseline
from backstay_contract.measurement import Measurement
from backstay_contract.metric import KINDS, MetricName
from backstay_contract.profile import HardwareProfile
from backstay_contract.resource import parse_spec
from backstay_contract.status import parse_status
from hypothesis import given
from hypothesis import strategies as st

DIGEST, OTHER = f"sha256:{'ab' * 32}", f"sha256:{'cd' * 32}"
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def baseline(metric: MetricName, value: float) -> RecordedBaseline:
    return RecordedBaseline(value=value, unit=KINDS[metric].unit, measured=Measurement(method="declared"))


MANIFEST = Manifest(
    name="chat",
    version="1.10",
    files=(ModelFile(path="config.json", size=1, sha256="a" * 64),),
    architecture=Architecture(family="llama"),
    hardware_profile=HardwareProfile(gpu="NVIDIA-L4", count=1),
    baselines={
        metric: baseline(metric, value)
        for metric, value in ((MetricName.P99_LATENCY, 420.0), (MetricName.PERPLEXITY, 14.2))
    },
)


def rendered(**changes: Any) -> dict[str, Any]:
    options = {"name": "chat", "endpoint": "http://minio.minio.svc:9000"} | changes
    return resource(MANIFEST, DIGEST, Location("models", "chat/1.10"), **options)


def test_a_rendered_resource_is_one_that_the_contract_reads() -> None:
    spec = parse_spec(yaml.safe_load(to_yaml(rendered()))["spec"])
    assert (spec.model.sha256, spec.model.version, spec.model.uri) == (DIGEST, "1.10", "s3://models/chat/1.10")
    assert spec.hardware_profile == MANIFEST.hardware_profile


def test_only_what_was_given_is_written_so_that_defaults_stay_the_clusters() -> None:
    document = rendered()
    assert set(document["spec"]) == {"model", "hardwareProfile"}
    assert document["metadata"] == {"name": "chat"}
    assert document["spec"]["model"]["storage"] == {"endpoint": "http://minio.minio.svc:9000"}


def test_options_are_written_where_they_belong() -> None:
    document = rendered(namespace="prod", replicas=0, region="eu-1", secret="reader")
    assert document["metadata"] == {"name": "chat", "namespace": "prod"}
    assert document["spec"]["replicas"] == 0
    assert document["spec"]["model"]["storage"]["secretRef"] == {"name": "reader"}
    assert document["spec"]["model"]["storage"]["region"] == "eu-1"


def test_the_baselines_stay_in_the_manifest_where_their_runtime_is_checked() -> None:
    assert MANIFEST.baselines
    assert not parse_spec(rendered()["spec"]).baselines.limits()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9000", "http://localhost:9000", "http://[::1]:9000"])
def test_this_machines_own_endpoint_is_refused_with_what_to_give(endpoint: str) -> None:
    with pytest.raises(CliError, match="--storage-endpoint"):
        rendered(endpoint=endpoint)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"replicas": -1}, "replicas"),
        ({"name": "x" * 60}, "60"),
        ({"secret": "A B"}, "secretRef"),
        ({"endpoint": "x"}, "endpoint"),
    ],
)
def test_a_wrong_option_names_its_field(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(CliError, match=word) as caught:
        rendered(**changes)
    assert caught.value.code is Exit.USAGE


def deployed(status: dict[str, Any] | None = None, **rollout: Any) -> dict[str, Any]:
    document = rendered()
    document["spec"]["rollout"] = rollout
    document["metadata"] |= {"namespace": "prod", "generation": 3, "creationTimestamp": "2026-05-01T10:30:00Z"}
    return document | ({"status": status} if status is not None else {})


def time_of(minutes_ago: float) -> str:
    return (NOW - timedelta(minutes=minutes_ago)).isoformat()


STATUS: dict[str, Any] = {
    "observedGeneration": 3,
    "phase": "Soaking",
    "reason": "Soaking",
    "message": "The new active colour is watched.",
    "active": {"colour": "green", "version": "1.10", "digest": DIGEST, "revision": "r2", "ready": 2, "replicas": 2},
    "previous": {"colour": "blue", "version": "1.9", "digest": OTHER, "revision": "r1", "ready": 1, "replicas": 2},
    "ready": "2/2",
    "attempt": {
        "id": "a-2",
        "revision": "r2",
        "digest": DIGEST,
        "version": "1.10",
        "colour": "green",
        "image": "runtime:1",
        "startedAt": time_of(9),
        "switchedAt": time_of(3),
        "observedSeconds": 170,
    },
    "verdicts": [
        {
            "metric": "p99LatencyMs",
            "verdict": "Inconclusive",
            "reason": "Undecided",
            "message": "12 of 900 requests were slower",
            "at": time_of(0),
            "limit": 840,
            "unit": "ms",
            "allowedFraction": 0.01,
            "n": 900,
            "k": 12,
            "estimate": 0.013333,
            "wilsonLow": 0.0076,
            "wilsonHigh": 0.0232,
            "eValue": 0.41,
            "breachAt": 3.3,
            "passEValue": -0.9,
            "passAt": 1.3,
        }
    ],
    "rejected": [
        {
            "digest": f"sha256:{'ef' * 32}",
            "revision": "r0",
            "version": "1.8",
            "attempt": "a-1",
            "reason": "Breach",
            "metric": "p99LatencyMs",
            "observed": 0.4,
            "limit": 840,
            "at": time_of(200),
        }
    ],
    "lastFailure": {
        "reason": "DigestMismatch",
        "message": "model.safetensors: SHA-256 is not the manifest's",
        "exitCode": 10,
        "pod": "chat-green-x",
        "container": "pull",
        "logTail": "one\ntwo",
        "at": time_of(60 * 24 * 3),
    },
}


def test_a_row_shows_phase_versions_and_age() -> None:
    assert view.row(deployed(STATUS), NOW) == ["chat", "Soaking", "1.10", "-", "2/2", "Soaking", "1h30m"]
    wide = view.row(deployed(STATUS), NOW, wide=True, namespaced=True)
    assert len(wide) == len(view.WIDE) + 1
    assert (wide[0], wide[8], wide[9]) == ("prod", "abababababab", "a-2")


def test_a_resource_that_nobody_has_looked_at_yet_is_pending() -> None:
    assert view.row(deployed(), NOW) == ["chat", "Pending", "-", "-", "0/0", "-", "1h30m"]
    assert any("not seen generation 3" in line for line in view.detail(deployed(), NOW))


def test_a_candidate_that_fetches_says_how_far_it_is() -> None:
    side = {"colour": "green", "version": "2", "digest": "sha256:" + "b" * 64, "revision": "r"}
    progress = {"bytes": 30 * 10**9, "bytesTotal": 120 * 10**9, "bytesPerSecond": 500_000_000, "secondsLeft": 180}
    text = "\n".join(view.detail(deployed({"candidate": side | {"progress": progress}}), NOW))
    assert "fetching: 25 % of 120.0 GB at 500 MB/s, 3m left" in text
    assert "fetching" not in "\n".join(view.detail(deployed({"candidate": side}), NOW))


def test_the_detail_shows_what_serves_what_is_tried_and_the_evidence() -> None:
    text = "\n".join(view.detail(deployed(STATUS), NOW))
    for said in (
        "prod/chat  Soaking",
        "active     green  1.10  abababababab  ready 2/2",
        "previous   blue  1.9",
        "flipped 3m ago, observed 170 s of 60 to 600 s",
        "p99LatencyMs     Inconclusive",
        "limit 840 ms",
        "n=900 k=12",
        "estimate 0.0133 (95 %: 0.0076 to 0.0232)",
        "log10 e 0.41 of 3.30 to Breach",
        "-0.90 of 1.30 to Pass",
        "DigestMismatch 3d ago, exit code 10 in chat-green-x/pull",
        "| two",
        "1.8  efefefefefef  Breach  p99LatencyMs observed 0.4, limit 840  3h20m ago",
    ):
        assert said in text
    assert "candidate" not in text


def test_the_detail_shows_pulled_levers_and_a_way_back_that_is_under_way() -> None:
    returning = {"to": "r1", "asked": "r2", "reason": "Breach", "since": time_of(2)}
    degraded = {"revision": "r2", "reason": "Breach", "since": time_of(5)}
    one = deployed(STATUS | {"returning": returning, "degraded": degraded}, paused=True, rollbackTo="ab" * 6)
    text = "\n".join(view.detail(one, NOW))
    for said in (
        "paused     nothing goes forward until backstay resume",
        "pinned     revision abababababab, until backstay rollback --clear",
        "returning  to revision r1 since 2m: Breach",
        "degraded   answers are cut since 5m: Breach",
    ):
        assert said in text
    assert "paused" not in "\n".join(view.detail(deployed(STATUS), NOW))


@given(st.timedeltas(timedelta(seconds=-5), timedelta(days=4000)))
def test_an_age_has_at_most_two_units_and_is_never_negative(span: timedelta) -> None:
    assert re.fullmatch(r"\d+d(\d+h)?|\d+h(\d+m)?|\d+m(\d+s)?|\d+s", view.age(span))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (90, "1m30s"),
        (3600, "1h"),
        (5400, "1h30m"),
        (90000, "1d1h"),
        (864000, "10d"),
    ],
)
def test_ages_are_written_as_kubectl_does(seconds: float, text: str) -> None:
    assert view.age(timedelta(seconds=seconds)) == text


def asked(status: dict[str, Any], **rollout: Any) -> tuple[Any, Any]:
    document = deployed(status, **rollout)
    return parse_spec(document["spec"]), parse_status(document["status"])


def test_a_retry_changes_the_token_of_a_rejected_digest_only() -> None:
    rejected = STATUS["rejected"][0] | {"digest": DIGEST}
    assert ask.retry(*asked(STATUS | {"rejected": [rejected]}), "t1").patch == {"rollout": {"retryToken": "t1"}}
    with pytest.raises(CliError, match="nothing to retry"):
        ask.retry(*asked(STATUS), "t1")


WAITS = STATUS | {"phase": "AwaitingPromotion"}


def test_a_promotion_names_the_attempt_that_waits() -> None:
    assert ask.promote(*asked(WAITS, promotion="Manual"), None).patch == {"rollout": {"promote": "a-2"}}
    assert ask.promote(*asked(WAITS, promotion="Manual"), "a-2").patch == {"rollout": {"promote": "a-2"}}


@pytest.mark.parametrize(
    ("status", "promotion", "attempt", "word"),
    [(WAITS, "Automatic", None, "Automatic"), (STATUS, "Manual", None, "Soaking"), (WAITS, "Manual", "a-1", "a-2")],
)
def test_a_promotion_that_cannot_be_is_refused(
    status: dict[str, Any], promotion: str, attempt: str | None, word: str
) -> None:
    with pytest.raises(CliError, match=word) as caught:
        ask.promote(*asked(status, promotion=promotion), attempt)
    assert caught.value.code is Exit.REFUSED


@pytest.mark.parametrize(
    ("status", "exit_code"),
    [
        (404, Exit.NOT_FOUND),
        (403, Exit.FORBIDDEN),
        (401, Exit.FORBIDDEN),
        (409, Exit.REFUSED),
        (422, Exit.REFUSED),
        (500, Exit.UNREACHABLE),
    ],
)
def test_answers_of_the_api_server_have_their_exit_codes(status: int, exit_code: Exit) -> None:
    error = failure("ModelDeployment prod/chat", status, json.dumps({"message": "said by the server"}))
    assert error.code is exit_code
    assert status == 409 or "said by the server" in str(error)
    assert failure("x", status, "<html>").code is exit_code
