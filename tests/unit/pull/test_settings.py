"""What a pull is told by its environment."""

from pathlib import Path

import pytest
from backstay_contract.names import Env
from backstay_contract.termination import GaveUp
from backstay_runtime.pull.errors import PullError
from backstay_runtime.pull.settings import ALLOW_LOOPBACK, read_settings

DIGEST = "ab" * 32
ENV = {
    Env.MODEL_URI: "s3://models/chat/1.2.0",
    Env.MODEL_DIGEST: DIGEST,
    Env.STORAGE_ENDPOINT: "http://minio.minio.svc:9000",
}


def refused(**changes: str) -> PullError:
    with pytest.raises(PullError) as caught:
        read_settings(ENV | changes)
    return caught.value


def test_the_smallest_environment_has_defaults_for_the_rest() -> None:
    found = read_settings(ENV)
    assert (found.location, found.digest) == (("models", "chat/1.2.0"), f"sha256:{DIGEST}")
    assert (found.models, found.region, found.credentials) == (Path("/models"), "us-east-1", None)
    assert found.profile is None
    assert not found.allow_loopback


@pytest.mark.parametrize("variable", sorted(ENV))
def test_what_is_missing_is_named(variable: str) -> None:
    error = refused(**{variable: ""})
    assert variable in str(error)
    assert error.termination.reason is GaveUp.SETTINGS_INVALID


@pytest.mark.parametrize(
    "uri",
    [
        "models/chat",
        "s3://models",
        "s3://models/",
        "s3:///chat",
        "s3://models//chat",
        "s3://m/a/../b",
        "s3://m/./a",
        "http://m/a",
    ],
)
def test_a_uri_that_is_no_bucket_and_prefix_is_refused(uri: str) -> None:
    assert Env.MODEL_URI in str(refused(**{Env.MODEL_URI: uri}))


def test_a_digest_that_is_none_is_refused() -> None:
    assert "SHA-256" in str(refused(**{Env.MODEL_DIGEST: "latest"}))


def test_a_file_endpoint_is_refused_as_an_endpoint() -> None:
    error = refused(**{Env.STORAGE_ENDPOINT: "file:///etc"})
    assert error.termination.reason is GaveUp.ENDPOINT_REFUSED


def test_a_hardware_profile_is_read_and_a_wrong_one_names_its_field() -> None:
    found = read_settings(ENV | {Env.HARDWARE_PROFILE: '{"gpu": "NVIDIA-H100-80GB-HBM3", "count": 1}'})
    assert found.profile is not None
    assert found.profile.count == 1
    assert "colour" in str(refused(**{Env.HARDWARE_PROFILE: '{"colour": "blue"}'}))


def test_only_a_clear_yes_allows_loopback() -> None:
    assert read_settings(ENV | {ALLOW_LOOPBACK: "1"}).allow_loopback
    assert not read_settings(ENV | {ALLOW_LOOPBACK: "true"}).allow_loopback
