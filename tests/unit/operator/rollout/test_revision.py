"""What makes a revision, and what does not."""

import copy
from typing import Any

import pytest
from backstay_contract.resource import ModelDeploymentSpec, parse_spec
from backstay_contract.serving import Serving
from backstay_operator.rollout.revision import revision_of

SPEC: dict[str, Any] = {
    "model": {
        "name": "smollm2",
        "version": "1.0.0",
        "uri": "s3://models/smollm2/1.0.0",
        "sha256": "sha256:" + "ab" * 32,
        "storage": {"endpoint": "http://minio.minio.svc:9000"},
    },
    "serving": {"maxNumSeqs": 8},
}


def changed(path: str, value: Any) -> ModelDeploymentSpec:
    spec = copy.deepcopy(SPEC)
    *parents, last = path.split(".")
    place = spec
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value
    return parse_spec(spec)


BEFORE = revision_of(parse_spec(SPEC), "runtime:1")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model.sha256", "sha256:" + "cd" * 32),
        ("serving.maxNumSeqs", 9),
        ("serving.queueLength", 1),
        ("serving.threads", 2),
        ("serving.outputRules", [{"rule": "Empty", "fallback": "Error"}]),
        ("hardwareProfile", {"gpu": "NVIDIA-L4", "count": 1}),
    ],
)
def test_what_changes_how_a_model_behaves_is_another_revision(path: str, value: Any) -> None:
    assert revision_of(changed(path, value), "runtime:1") != BEFORE


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replicas", 7),
        ("model.version", "1.0.1"),
        ("model.uri", "s3://models/elsewhere"),
        ("rollout.promotion", "Manual"),
        ("rollback.rules", []),
        ("baselines.errorRate", {"value": 0.1}),
    ],
)
def test_what_does_not_change_it_is_the_same_revision(path: str, value: Any) -> None:
    assert revision_of(changed(path, value), "runtime:1") == BEFORE


def test_another_image_is_another_revision() -> None:
    assert revision_of(parse_spec(SPEC), "runtime:2") != BEFORE


def test_a_default_that_is_written_out_is_the_same_revision() -> None:
    assert revision_of(changed("serving.queueLength", Serving().queue_length), "runtime:1") == BEFORE


@pytest.mark.case("T15")
def test_a_field_that_a_later_version_adds_makes_no_new_revision_of_a_spec_that_does_not_name_it() -> None:
    class LaterServing(Serving):
        later: str = "as before"

    class Later(ModelDeploymentSpec):
        serving: LaterServing = LaterServing()

    assert revision_of(Later.model_validate(SPEC), "runtime:1") == BEFORE
    named = copy.deepcopy(SPEC)
    named["serving"]["later"] = "otherwise"
    assert revision_of(Later.model_validate(named), "runtime:1") != BEFORE
