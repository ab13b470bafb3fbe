"""Failures of the storage, told apart; and the keys that are read for each request."""

from pathlib import Path

import pytest
from backstay_contract.termination import GaveUp
from backstay_runtime.pull.errors import ObjectChangedError, PullError, TransientError
from backstay_runtime.pull.storage import FolderCredentials, _from_s3, _from_status

WHERE = "s3://models/m/1/config.json"


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (404, "NoSuchKey", GaveUp.MODEL_NOT_FOUND),
        (404, "NoSuchBucket", GaveUp.MODEL_NOT_FOUND),
        (403, "AccessDenied", GaveUp.CREDENTIALS_REJECTED),
        (403, "InvalidAccessKeyId", GaveUp.CREDENTIALS_REJECTED),
        (403, "SignatureDoesNotMatch", GaveUp.CREDENTIALS_REJECTED),
        (401, "", GaveUp.CREDENTIALS_REJECTED),
        (301, "PermanentRedirect", GaveUp.ENDPOINT_REFUSED),
        (307, "Redirect", GaveUp.ENDPOINT_REFUSED),
        (400, "AuthorizationHeaderMalformed", GaveUp.SETTINGS_INVALID),
        (418, "", GaveUp.STORAGE_UNREACHABLE),
    ],
)
def test_each_final_answer_has_its_own_reason_and_names_the_object(status: int, code: str, reason: GaveUp) -> None:
    error = _from_s3(code, status, "config.json", WHERE)
    assert isinstance(error, PullError)
    assert error.termination.reason is reason
    assert WHERE in error.termination.message
    assert (code or str(status)) in error.termination.message


@pytest.mark.parametrize(
    ("status", "code"),
    [(500, "InternalError"), (503, "SlowDown"), (503, ""), (502, ""), (429, ""), (408, ""), (400, "RequestTimeout")],
)
def test_answers_that_pass_are_tried_again(status: int, code: str) -> None:
    assert isinstance(_from_s3(code, status, "config.json", WHERE), TransientError)


def test_a_failed_condition_means_that_the_object_was_replaced() -> None:
    assert isinstance(_from_s3("PreconditionFailed", 412, "config.json", WHERE), ObjectChangedError)
    assert isinstance(_from_status(412, "config.json", WHERE), ObjectChangedError)


def secret(folder: Path, access: str, secret_key: str) -> None:
    folder.mkdir()
    (folder / "accessKey").write_text(access + "\n")
    (folder / "secretKey").write_text(secret_key + "\n")


def test_keys_are_read_again_for_each_request(tmp_path: Path) -> None:
    secret(tmp_path / "a", "one", "1")
    credentials = FolderCredentials(tmp_path / "a")
    assert credentials.retrieve().access_key == "one"
    (tmp_path / "a" / "accessKey").write_text("two")
    assert (credentials.retrieve().access_key, credentials.retrieve().secret_key) == ("two", "1")


def test_keys_of_a_mounted_secret_are_of_one_generation(tmp_path: Path) -> None:
    secret(tmp_path / "..2026_01", "one", "1")
    secret(tmp_path / "..2026_02", "two", "2")
    (tmp_path / "..data").symlink_to("..2026_01")
    credentials = FolderCredentials(tmp_path)
    assert credentials.retrieve().secret_key == "1"
    (tmp_path / "..next").symlink_to("..2026_02")
    (tmp_path / "..next").rename(tmp_path / "..data")
    assert (credentials.retrieve().access_key, credentials.retrieve().secret_key) == ("two", "2")


@pytest.mark.parametrize(("key", "content"), [("secretKey", None), ("accessKey", ""), ("secretKey", " \n")])
def test_a_secret_without_a_usable_key_names_the_key_and_shows_no_value(
    tmp_path: Path, key: str, content: str | None
) -> None:
    secret(tmp_path / "a", "AKIAEXAMPLE", "hunter2")
    (tmp_path / "a" / key).unlink()
    if content is not None:
        (tmp_path / "a" / key).write_text(content)
    with pytest.raises(PullError, match=key) as caught:
        FolderCredentials(tmp_path / "a").retrieve()
    assert caught.value.termination.reason is GaveUp.CREDENTIALS_REJECTED
    assert "hunter2" not in str(caught.value)
    assert "AKIAEXAMPLE" not in str(caught.value)
