"""Places, keys and plans of the storage; and what its answers mean."""

from pathlib import Path
from typing import Any

import pytest
from backstay_cli.commands import options
from backstay_cli.errors import CliError, Exit
from backstay_cli.storage.access import ACCESS_KEY, SECRET_KEY, read_access
from backstay_cli.storage.multipart import MAX_PARTS, MIB, PART_BYTES, part_bytes
from backstay_cli.storage.push import make_plan
from backstay_cli.storage.store import Stored, failure
from backstay_contract.manifest import ModelFile
from backstay_contract.names import Env
from hypothesis import given
from hypothesis import strategies as st

NOTHING: dict[str, Any] = {"endpoint": None, "region": None, "access_key_file": None, "secret_key_file": None}


def test_a_uri_that_no_resource_could_name_is_wrong_usage() -> None:
    with pytest.raises(CliError, match="uri 's3://models'") as caught:
        options.location("s3://models")
    assert caught.value.code is Exit.USAGE


def test_options_come_before_the_environment(tmp_path: Path) -> None:
    (tmp_path / "access").write_text("from-file\n")
    (tmp_path / "secret").write_text("file-secret\n")
    env = {Env.STORAGE_ENDPOINT: "http://a:9000", ACCESS_KEY: "from-env", SECRET_KEY: "env-secret"}
    found = read_access(env, **NOTHING)
    assert (found.endpoint, found.access_key, found.region) == ("http://a:9000", "from-env", "us-east-1")
    found = read_access(
        env,
        endpoint="https://b/",
        region="eu-1",
        access_key_file=tmp_path / "access",
        secret_key_file=tmp_path / "secret",
    )
    assert (found.endpoint, found.access_key, found.secret_key) == ("https://b", "from-file", "file-secret")
    assert found.region == "eu-1"


def test_a_secret_key_is_not_in_what_is_shown_of_it() -> None:
    env = {Env.STORAGE_ENDPOINT: "http://a", ACCESS_KEY: "a", SECRET_KEY: "hunter2"}
    assert "hunter2" not in repr(read_access(env, **NOTHING))


@pytest.mark.parametrize(
    ("env", "word"),
    [
        ({}, "--endpoint"),
        ({Env.STORAGE_ENDPOINT: "storage:9000"}, "storage:9000"),
        ({Env.STORAGE_ENDPOINT: "http://a/b"}, "--endpoint"),
        ({Env.STORAGE_ENDPOINT: "http://u:p@a"}, "keys do not belong"),
        ({Env.STORAGE_ENDPOINT: "http://a", ACCESS_KEY: "a"}, "one of them is missing"),
        ({Env.STORAGE_ENDPOINT: "http://a", SECRET_KEY: "a"}, "one of them is missing"),
    ],
)
def test_what_is_missing_or_wrong_is_named(env: dict[str, str], word: str) -> None:
    with pytest.raises(CliError, match=word) as caught:
        read_access(env, **NOTHING)
    assert caught.value.code is Exit.USAGE


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="nowhere"):
        read_access({Env.STORAGE_ENDPOINT: "http://a"}, **NOTHING | {"access_key_file": tmp_path / "nowhere"})


FILES = tuple(
    ModelFile(path=f"{name}.txt", size=size, sha256=name * 64) for name, size in (("a", 1), ("b", 2), ("c", 3))
)


def test_only_files_with_the_same_size_and_recorded_digest_are_kept() -> None:
    stored = [Stored(1, "a" * 64, ""), Stored(9, "b" * 64, ""), None]
    plan = make_plan(FILES, stored, published=False)
    assert [file.path for file in plan.keep] == ["a.txt"]
    assert [file.path for file in plan.foreign] == ["b.txt"]
    assert [file.path for file in plan.send] == ["c.txt"]
    assert plan.bytes_to_send == 5


def test_an_object_without_a_recorded_digest_is_foreign() -> None:
    assert make_plan(FILES[:1], [Stored(1, None, "")], published=False).foreign == FILES[:1]


@given(st.lists(st.sampled_from(["same", "other", "none"]), min_size=3, max_size=3))
def test_every_file_is_kept_sent_or_foreign(states: list[str]) -> None:
    stored = [
        None if state == "none" else Stored(file.size, file.sha256[7:] if state == "same" else "f" * 64, "")
        for file, state in zip(FILES, states, strict=True)
    ]
    plan = make_plan(FILES, stored, published=False)
    assert sorted((*plan.keep, *plan.send, *plan.foreign), key=lambda file: file.path) == list(FILES)
    assert len(plan.keep) == states.count("same")
    assert len(plan.send) == states.count("none")


@given(st.integers(PART_BYTES + 1, 5 * 1024**4))
def test_no_file_has_more_parts_than_s3_takes(size: int) -> None:
    part = part_bytes(size)
    assert part % MIB == 0
    assert part >= PART_BYTES
    assert -(-size // part) <= MAX_PARTS


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        (404, "NoSuchKey", Exit.NOT_FOUND),
        (403, "SignatureDoesNotMatch", Exit.FORBIDDEN),
        (412, "PreconditionFailed", Exit.REFUSED),
        (404, "NoSuchUpload", Exit.REFUSED),
        (400, "InvalidPart", Exit.REFUSED),
        (307, "", Exit.UNREACHABLE),
        (500, "InternalError", Exit.UNREACHABLE),
    ],
)
def test_answers_of_the_storage_have_their_exit_codes(status: int, code: str, exit_code: Exit) -> None:
    error = failure(status, code, "s3://models/m/config.json")
    assert error.code is exit_code
    assert "s3://models/m/config.json" in str(error)
