"""Whole pulls against a storage in memory: what ends where, and what is left."""

import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest
from backstay_contract.names import MANIFEST_FILE
from backstay_contract.profile import HardwareProfile
from backstay_contract.termination import GaveUp, Termination
from backstay_runtime.pull.download import Options
from backstay_runtime.pull.errors import PullError, TransientError
from backstay_runtime.pull.pull import Outcome, pull
from backstay_runtime.pull.retry import Backoff
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .fakes import CONTENT, FailsOnce, FakeStorage, Lines, model_in_storage, settings_for

QUICK = Options(piece_bytes=3000, record_bytes=500, backoff=Backoff(attempts=3, first_seconds=0.001))
WEIGHTS = "model.safetensors"


def run(
    storage: FakeStorage, models: Path, options: Options = QUICK, log: Lines | None = None, **changes: object
) -> Outcome:
    wanted = settings_for(models, storage.objects[MANIFEST_FILE])
    values = {name: getattr(wanted, name) for name in wanted.__dataclass_fields__} | changes
    return pull(type(wanted)(**values), storage, options, log or Lines())  # type: ignore[arg-type]


def given_up(storage: FakeStorage, models: Path, **changes: Any) -> Termination:
    with pytest.raises(PullError) as caught:
        run(storage, models, **changes)
    return caught.value.termination


def assert_whole(folder: Path) -> None:
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found.pop(MANIFEST_FILE)
    assert found == dict(CONTENT)


def visible(models: Path) -> list[str]:
    return [path.name for path in models.iterdir() if not path.name.startswith(".")]


def hidden(models: Path, prefix: str) -> list[Path]:
    return [path for path in models.iterdir() if path.name.startswith(prefix)]


def test_a_pull_leaves_the_whole_model_and_nothing_else(tmp_path: Path) -> None:
    outcome = run(model_in_storage(), tmp_path)
    assert_whole(outcome.folder)
    assert visible(tmp_path) == [outcome.folder.name]
    assert hidden(tmp_path, ".partial-") == []
    assert outcome.bytes_fetched == outcome.bytes_total == sum(map(len, CONTENT.values()))


def test_a_model_that_is_there_is_verified_and_not_fetched_again(tmp_path: Path) -> None:
    storage = model_in_storage()
    run(storage, tmp_path)
    before = storage.bytes_read
    outcome = run(storage, tmp_path)
    assert (outcome.bytes_fetched, storage.bytes_read) == (0, before)


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "extra", "link", "manifest"])
def test_a_model_that_was_damaged_on_the_disk_is_fetched_anew(tmp_path: Path, damage: str) -> None:
    storage = model_in_storage()
    folder = run(storage, tmp_path).folder
    weights = folder / WEIGHTS
    data = bytearray(weights.read_bytes())
    if damage == "flip":
        data[7000] ^= 1
        weights.write_bytes(data)
    elif damage == "truncate":
        weights.write_bytes(data[:-1])
    elif damage == "remove":
        weights.unlink()
    elif damage == "extra":
        (folder / "pytorch_model.py").write_text("import os")
    elif damage == "link":
        (tmp_path / ".aside").write_bytes(data)
        weights.unlink()
        weights.symlink_to(tmp_path / ".aside")
    else:
        (folder / MANIFEST_FILE).write_bytes(b"{}")
    log = Lines()
    outcome = run(storage, tmp_path, log=log)
    assert outcome.bytes_fetched > 0
    assert any("damaged" in said for said in log.messages("warning"))
    assert_whole(outcome.folder)
    assert hidden(tmp_path, ".bad-") == []


def test_a_flipped_byte_in_storage_is_a_mismatch_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    storage = model_in_storage()
    data = bytearray(CONTENT[WEIGHTS])
    data[5000] ^= 1
    storage.objects[WEIGHTS] = bytes(data)
    said = given_up(storage, tmp_path)
    assert said.reason is GaveUp.DIGEST_MISMATCH
    assert said.path == WEIGHTS
    assert said.expected == f"sha256:{hashlib.sha256(CONTENT[WEIGHTS]).hexdigest()}"
    assert said.actual == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert visible(tmp_path) == []
    assert hidden(tmp_path, ".partial-") == []


def test_a_truncated_object_is_a_mismatch_before_any_weight_byte_is_asked_for(tmp_path: Path) -> None:
    storage = model_in_storage()
    storage.objects[WEIGHTS] = CONTENT[WEIGHTS][:-1]
    said = given_up(storage, tmp_path)
    assert (said.reason, said.path) == (GaveUp.DIGEST_MISMATCH, WEIGHTS)
    assert said.expected == f"{len(CONTENT[WEIGHTS])} bytes"
    assert storage.requests == []


def test_a_missing_object_is_not_found(tmp_path: Path) -> None:
    storage = model_in_storage()
    del storage.objects["config.json"]
    assert given_up(storage, tmp_path).reason is GaveUp.MODEL_NOT_FOUND


def test_another_manifest_than_the_pinned_one_is_a_mismatch(tmp_path: Path) -> None:
    said = given_up(model_in_storage(), tmp_path, digest=f"sha256:{'1' * 64}")
    assert (said.reason, said.path) == (GaveUp.DIGEST_MISMATCH, MANIFEST_FILE)


def test_hardware_that_the_model_was_not_qualified_on_ends_the_pull_before_a_byte(tmp_path: Path) -> None:
    storage = model_in_storage(hardware_profile=HardwareProfile(gpu="NVIDIA-L4", count=1))
    assert given_up(storage, tmp_path, profile=HardwareProfile()).reason is GaveUp.HARDWARE_MISMATCH
    assert storage.requests == []


def test_hardware_is_also_compared_when_the_model_is_there_already(tmp_path: Path) -> None:
    storage = model_in_storage(hardware_profile=HardwareProfile(gpu="NVIDIA-L4", count=1))
    run(storage, tmp_path)
    assert given_up(storage, tmp_path, profile=HardwareProfile()).reason is GaveUp.HARDWARE_MISMATCH


def test_no_room_ends_the_pull_before_a_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backstay_runtime.pull.cache.free", lambda folder: 1000)
    storage = model_in_storage()
    assert given_up(storage, tmp_path).reason is GaveUp.INSUFFICIENT_STORAGE
    assert storage.requests == []


def test_a_lost_connection_goes_on_where_it_stopped(tmp_path: Path) -> None:
    storage = model_in_storage()
    storage.on_read = FailsOnce(WEIGHTS, 4500)
    outcome = run(storage, tmp_path)
    assert_whole(outcome.folder)
    assert outcome.bytes_fetched == outcome.bytes_total


def test_a_storage_that_stays_away_ends_the_pull_and_keeps_what_came(tmp_path: Path) -> None:
    storage = model_in_storage()

    def fail(path: str, offset: int) -> None:
        if path == WEIGHTS and offset >= 5000:
            raise TransientError("timed out")

    storage.on_read = fail
    assert given_up(storage, tmp_path).reason is GaveUp.STORAGE_UNREACHABLE
    assert visible(tmp_path) == []
    storage.on_read = lambda path, offset: None
    outcome = run(storage, tmp_path)
    assert_whole(outcome.folder)
    assert outcome.bytes_resumed >= 3000
    assert outcome.bytes_fetched + outcome.bytes_resumed == outcome.bytes_total


def test_a_journal_that_promises_too_much_costs_one_more_fetch_and_is_no_mismatch(tmp_path: Path) -> None:
    storage = model_in_storage()
    storage.on_read = FailsOnce(WEIGHTS, 5000, KeyError("killed"))
    with pytest.raises(KeyError):
        run(storage, tmp_path)
    (partial,) = hidden(tmp_path, ".partial-")
    # As after a power cut: the journal speaks of bytes that never reached the disk.
    (partial / "model" / WEIGHTS).write_bytes(bytes(len(CONTENT[WEIGHTS])))
    log = Lines()
    outcome = run(storage, tmp_path, log=log)
    assert_whole(outcome.folder)
    assert any("anew" in said for said in log.messages("warning"))


def test_an_object_that_is_replaced_by_the_same_bytes_under_the_download_is_fetched_anew(tmp_path: Path) -> None:
    storage = model_in_storage()
    swapped = threading.Event()

    def swap(path: str, offset: int) -> None:
        if path == WEIGHTS and offset >= 4000 and not swapped.is_set():
            swapped.set()
            storage.objects[WEIGHTS] = b"x" * len(CONTENT[WEIGHTS])
            raise TransientError("reset")  # the next request carries If-Match

    storage.on_read = swap
    original = storage.facts

    def facts(path: str) -> object:
        if swapped.is_set():
            storage.objects[WEIGHTS] = CONTENT[WEIGHTS]
        return original(path)

    storage.facts = facts  # type: ignore[method-assign,assignment]
    log = Lines()
    assert_whole(run(storage, tmp_path, log=log).folder)
    assert any("replaced" in said for said in log.messages("warning"))


def test_an_object_that_is_replaced_by_other_bytes_under_the_download_is_a_mismatch(tmp_path: Path) -> None:
    storage = model_in_storage()

    def swap(path: str, offset: int) -> None:
        if path == WEIGHTS and offset >= 4000 and storage.objects[WEIGHTS] == CONTENT[WEIGHTS]:
            storage.objects[WEIGHTS] = b"x" * len(CONTENT[WEIGHTS])
            raise TransientError("reset")

    storage.on_read = swap
    said = given_up(storage, tmp_path)
    assert (said.reason, said.path) == (GaveUp.DIGEST_MISMATCH, WEIGHTS)
    assert visible(tmp_path) == []


def test_an_object_that_keeps_changing_is_a_mismatch_after_some_rounds(tmp_path: Path) -> None:
    storage = model_in_storage()
    count = iter(range(10_000))

    def swap(path: str, offset: int) -> None:
        if path == WEIGHTS:
            storage.objects[WEIGHTS] = str(next(count)).encode().ljust(len(CONTENT[WEIGHTS]), b" ")
            raise TransientError("reset")

    storage.on_read = swap
    said = given_up(storage, tmp_path)
    assert said.reason is GaveUp.DIGEST_MISMATCH
    assert "replaced" in said.message


def test_pulls_of_one_digest_at_the_same_time_fetch_it_once(tmp_path: Path) -> None:
    storage = model_in_storage()
    outcomes: list[Outcome] = []
    threads = [threading.Thread(target=lambda: outcomes.append(run(storage, tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 4
    assert sorted(outcome.bytes_fetched > 0 for outcome in outcomes) == [False, False, False, True]
    assert storage.bytes_read == sum(map(len, CONTENT.values()))
    assert_whole(outcomes[0].folder)


def test_a_file_in_the_way_of_the_models_folder_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("")
    said = given_up(model_in_storage(), tmp_path / "models")
    assert (said.reason, "models" in said.message) == (GaveUp.INTERNAL, True)


def test_pieces_of_a_replaced_object_keep_no_place_from_the_next_file(tmp_path: Path) -> None:
    content = {"a.txt": bytes(5000), "b.txt": bytes(range(200)) * 30, "c.txt": bytes(4000)}
    storage = model_in_storage(content)
    original, swapped = storage.facts, threading.Event()

    def swap(path: str, offset: int) -> None:
        if path == "a.txt" and offset >= 300 and not swapped.is_set():
            swapped.set()
            storage.objects["a.txt"] = b"x" * 5000
            raise TransientError("reset")

    def facts(path: str) -> object:
        if swapped.is_set():
            storage.objects["a.txt"] = content["a.txt"]
        return original(path)

    storage.on_read, storage.facts = swap, facts  # type: ignore[method-assign,assignment]
    options = Options(requests=3, hashers=1, piece_bytes=200, pieces=3, record_bytes=100, backoff=QUICK.backoff)
    folder = run(storage, tmp_path, options).folder
    assert {path: (folder / path).read_bytes() for path in content} == content


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.dictionaries(
        st.text("aZ0 .-_ü%+/#?", min_size=1, max_size=12).map(lambda text: text.strip("/. ") or "x"),
        st.binary(max_size=4000),
        min_size=1,
        max_size=5,
    ),
    piece=st.integers(1, 3000),
    record=st.integers(1, 3000),
    fail_at=st.integers(0, 4000),
)
def test_any_content_comes_whole_in_any_pieces_and_after_any_kill(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, bytes], piece: int, record: int, fail_at: int
) -> None:
    models = tmp_path_factory.mktemp("models")
    try:
        storage = model_in_storage(content)
    except ValueError:
        return  # paths that the contract refuses are tested there
    options = Options(piece_bytes=piece, record_bytes=record, backoff=Backoff(attempts=3, first_seconds=0.001))
    path = max(content, key=lambda name: len(content[name]))
    storage.on_read = FailsOnce(path, fail_at, KeyError("killed"))
    try:
        run(storage, models, options)
    except KeyError:
        assert visible(models) == []
    folder = run(storage, models, options).folder
    assert {name: (folder / name).read_bytes() for name in content} == content
