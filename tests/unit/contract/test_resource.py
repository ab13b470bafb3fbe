"""The custom resource's spec, as the parts in Python read it."""

import copy
import re
from typing import Any

import pytest
from backstay_contract.metric import MetricName
from backstay_contract.resource import REFUSED_ENDPOINT, Baseline, Baselines, ModelDeploymentSpec, parse_spec
from backstay_contract.rollout import MetricsSource, Policy, WhenSpecChanges
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
SMALLEST: dict[str, Any] = {
    "model": {
        "name": "smollm2",
        "version": "1.0.0",
        "uri": "s3://models/smollm2/1.0.0",
        "sha256": HEX,
        "storage": {"endpoint": "http://minio.minio.svc:9000"},
    }
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The smallest spec with one field set."""
    spec = copy.deepcopy(SMALLEST)
    place = spec
    *parents, last = path.split(".")
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value
    return spec


class TestDefaults:
    def test_a_left_out_field_has_its_default(self) -> None:
        spec = parse_spec(SMALLEST)

        assert spec.replicas == 1
        assert spec.hardware_profile.gpu == "none"
        assert spec.rollout.soak.on_insufficient_data is Policy.PROMOTE
        assert spec.rollout.soak.on_no_data is Policy.HOLD
        assert spec.rollout.when_spec_changes_in_soak is WhenSpecChanges.QUEUE
        assert spec.rollout.metrics.source is MetricsSource.AUTO

    def test_zero_is_not_the_same_as_left_out(self) -> None:
        rollout = parse_spec(changed("rollout", {"scaleDownDelaySeconds": 0, "soak": {"minSeconds": 0}})).rollout

        assert (rollout.scale_down_delay_seconds, rollout.soak.min_seconds) == (0, 0)
        assert parse_spec(SMALLEST).rollout.scale_down_delay_seconds == 30

    def test_the_digest_is_held_in_its_one_spelling(self) -> None:
        with_prefix = parse_spec(changed("model.sha256", f"sha256:{HEX}"))

        assert with_prefix == parse_spec(SMALLEST)
        assert with_prefix.model.sha256 == f"sha256:{HEX}"

    def test_a_spec_survives_its_way_through_json(self) -> None:
        spec = parse_spec(
            changed("serving", {"resources": {"limits": {"cpu": 2}}, "tolerations": [{"operator": "Exists"}]})
        )

        assert parse_spec(spec.to_json()) == spec


class TestRefusals:
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("model.sha256", "latest"),
            ("model.name", "Chat"),
            ("model.version", "1 0"),
            ("model.uri", "s3://models"),
            ("model.uri", "s3://UPPER/x"),
            ("model.uri", "https://models/x"),
            ("model.storage.endpoint", "ftp://minio"),
            ("model.storage.endpoint", "http://user:pass@minio"),
            ("model.storage.endpoint", "http://minio/path"),
            ("model.storage.secretRef", {"name": "Not A Name"}),
            ("hardwareProfile.driver", "newest"),
            ("hardwareProfile.count", 1),
            ("baselines.p99LatencyMs", {"value": "420ms"}),
            ("baselines.errorRate", {"value": 0.1, "tolerance": 0}),
            ("replicas", -1),
            ("serving.dtype", "int4"),
            ("serving.image", "a b"),
            ("serving.resources.limits", {"memory": "3 GiB"}),
            ("serving.resources.limits", {"cpu": True}),
            ("serving.resources.limits", {"cpu": -1}),
            ("serving.resources.limits", {"gpu": "1"}),
            ("rollout.strategy", "Canary"),
            ("rollout.soak.alpha", 0),
            ("rollout.soak.alpha", 0.51),
            ("rollout.soak.intervalSeconds", 0),
            ("rollout.retryToken", "x" * 64),
            ("rollout.checks.smoke.maxTokens", 65),
            ("rollout.unknown", 1),
        ],
    )
    def test_a_bad_field_is_refused_with_its_path(self, path: str, value: Any) -> None:
        with pytest.raises(ValidationError) as caught:
            parse_spec(changed(path, value))

        refused = [".".join(map(str, error["loc"])) for error in caught.value.errors()]
        assert len(refused) == 1
        assert refused[0].startswith(path) or path.startswith(refused[0])

    @pytest.mark.parametrize("field", ["name", "version", "uri", "sha256", "storage"])
    def test_a_missing_field_of_the_model_is_refused_with_its_name(self, field: str) -> None:
        spec = copy.deepcopy(SMALLEST)
        del spec["model"][field]

        with pytest.raises(ValidationError, match=rf"model\.{field}"):
            parse_spec(spec)


class TestQuantities:
    @pytest.mark.parametrize("text", ["0", "1", "500m", "0.5", "3Gi", "2G", "128Mi", "100k", "1Ti"])
    def test_an_amount_is_taken_as_pods_write_it(self, text: str) -> None:
        spec = parse_spec(changed("serving.resources.requests", {"memory": text}))

        assert spec.serving.resources.requests == {"memory": text}

    @given(st.integers(0, 10**9))
    def test_a_whole_number_means_its_digits(self, amount: int) -> None:
        spec = parse_spec(changed("serving.resources.limits", {"cpu": amount}))

        assert spec.serving.resources.limits == {"cpu": str(amount)}

    @pytest.mark.parametrize("text", ["", "1 Gi", "Gi", "-1", "1e3", "3GiB", "3gb", "1,5", "0x1"])
    def test_another_spelling_is_refused(self, text: str) -> None:
        with pytest.raises(ValidationError, match="memory"):
            parse_spec(changed("serving.resources.requests", {"memory": text}))


class TestEndpoints:
    """The pattern is a CEL rule; RE2 and Python agree on all of its syntax."""

    @pytest.mark.parametrize(
        "host",
        ["localhost", "LOCALHOST", "a.localhost", "localhost.", "localhost.localdomain", "ip6-localhost", "127.0.0.1",
         "127.1", "0.0.0.0", "0", "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "169.254.169.254",
         "metadata", "metadata.google.internal", "METADATA.google.internal.", "100.100.100.200",
         "instance-data.ec2.internal"],
    )  # fmt: skip
    @pytest.mark.parametrize("form", ["http://{}", "https://{}/", "HTTP://{}:9000"])
    def test_loopback_and_metadata_addresses_are_refused_in_any_spelling(self, host: str, form: str) -> None:
        assert re.search(REFUSED_ENDPOINT, form.format(host))

    @pytest.mark.parametrize(
        "host",
        ["minio", "minio.minio.svc", "10.0.0.1", "192.168.1.127", "s3.amazonaws.com", "localhost-cache", "notlocalhost",
         "metadata-store", "my-metadata.svc", "172.17.0.1", "127-0-0-1.example.com", "1.127.0.0", "0a.example.com"],
    )  # fmt: skip
    def test_a_host_that_only_looks_like_one_is_taken(self, host: str) -> None:
        assert not re.search(REFUSED_ENDPOINT, f"http://{host}:9000")

    @given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255))
    def test_the_whole_loopback_and_link_local_ranges_are_refused(self, a: int, b: int, c: int) -> None:
        for address in (f"127.{a}.{b}.{c}", f"0.{a}.{b}.{c}", f"169.254.{b}.{c}"):
            assert re.search(REFUSED_ENDPOINT, f"http://{address}:9000")

    @given(st.ip_addresses(v=4).filter(lambda ip: not (ip.is_loopback or ip.is_link_local or ip.packed[0] == 0)))
    def test_other_addresses_are_taken_but_for_the_metadata_one(self, address: Any) -> None:
        refused = re.search(REFUSED_ENDPOINT, f"http://{address}:9000")

        assert bool(refused) == (str(address) == "100.100.100.200")


class TestBaselines:
    def test_a_perplexity_tolerates_a_tenth_by_default_and_what_is_written_else(self) -> None:
        limits = [
            Baselines.model_validate({"perplexity": given}).limits()
            for given in ({"value": 20}, {"value": 20, "tolerance": 1.5})
        ]

        assert limits == [{MetricName.PERPLEXITY: pytest.approx(22.0)}, {MetricName.PERPLEXITY: 30.0}]

    def test_only_given_baselines_have_a_limit(self) -> None:
        baselines = Baselines(p99_latency_ms=Baseline(value=420), tokens_per_second=Baseline(value=60, tolerance=1.5))

        assert baselines.limits() == {MetricName.P99_LATENCY: 840.0, MetricName.TOKENS_PER_SECOND: 40.0}

    def test_every_judged_metric_is_spelt_as_its_field(self) -> None:
        fields = {field.alias for field in Baselines.model_fields.values()}

        assert fields == {metric.value for metric in MetricName}

    @pytest.mark.parametrize("field", [name for name in Baselines.model_fields])
    def test_each_field_leads_to_a_limit(self, field: str) -> None:
        baselines = Baselines.model_validate({field: {"value": 0.5}})

        assert [metric.value for metric in baselines.limits()] == [Baselines.model_fields[field].alias]


def test_every_field_of_the_spec_says_what_it_means() -> None:
    silent = []

    def visit(schema: dict[str, Any], path: str) -> None:
        for name, field in schema.get("properties", {}).items():
            if not field.get("description"):
                silent.append(path + name)
            visit(field, f"{path}{name}.")
            visit(field.get("items", {}), f"{path}{name}[].")

    from backstay_contract.crd import schema_of

    visit(schema_of(ModelDeploymentSpec), "")
    assert silent == []
