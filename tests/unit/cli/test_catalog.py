"""What lies in a bucket, how two models differ, and what may go."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from backstay_cli.commands import options
from backstay_cli.commands.catalog import size
from backstay_cli.commands.gc import duration
from backstay_cli.errors import CliError
from backstay_cli.main import app
from backstay_cli.model.compare import differences
from backstay_cli.resource.references import names_of
from backstay_cli.storage.catalog import Found, sort_out
from backstay_cli.storage.collect import Keep, Names, fates
from backstay_cli.storage.store import Listed
from backstay_contract import manifest as manifests
from backstay_contract.location import Location
from backstay_contract.manifest import Architecture, EvaluationItem, Manifest, ModelFile
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

NOW = datetime(2026, 1, 31, tzinfo=UTC)
OLD = NOW - timedelta(days=30)
WEEK = timedelta(days=7)
NOTHING = Names({}, {})


def manifest(version: str = "1", *paths: str, **fields: object) -> Manifest:
    files = [ModelFile(path=path, size=3, sha256="a" * 64) for path in paths or ("config.json",)]
    values = {"name": "m", "version": version, "files": files, "architecture": Architecture(family="llama")}
    return Manifest.model_validate(values | fields)


def listing(*keys: str) -> dict[str, Listed]:
    return {key: Listed(key, 3, OLD) for key in keys}


def test_a_models_objects_are_those_that_its_manifest_lists() -> None:
    data = manifests.dump(manifest("1", "config.json", "d/w.txt"))
    listed = listing("m/1/manifest.json", "m/1/config.json", "m/1/d/w.txt", "m/1/notes.txt", "m/1/d/x.txt")
    model, *rest = sorted(sort_out("b", listed, {"m/1": data}), key=lambda one: one.digest is None)
    assert model.keys == ("m/1/manifest.json", "m/1/config.json", "m/1/d/w.txt")
    assert (model.digest, model.size) == (manifests.digest_of(data), 9)
    assert {key for one in rest for key in one.keys} == {"m/1/notes.txt", "m/1/d/x.txt"}
    assert all(one.digest is None for one in rest)


def test_a_manifest_that_another_one_lists_is_a_file_of_that() -> None:
    outer = manifests.dump(manifest("1", "inner/manifest.json"))
    listed = listing("m/manifest.json", "m/inner/manifest.json")
    found = sort_out("b", listed, {"m": outer, "m/inner": manifests.dump(manifest())})
    assert [one.keys for one in found] == [("m/manifest.json", "m/inner/manifest.json")]


def test_a_manifest_that_cannot_be_read_says_why() -> None:
    (found,) = sort_out("b", listing("m/manifest.json"), {"m": b"{}"})
    assert found.manifest is None
    assert "name" in (found.problem or "")


def model(prefix: str, version: str = "1", age: timedelta = NOW - OLD, **fields: object) -> Found:
    one = manifest(version, **fields)
    digest = manifests.digest_of(manifests.dump(one))
    return Found(Location("b", prefix), (f"{prefix}/manifest.json",), 3, NOW - age, digest, one)


def fate(found: Found, names: Names = NOTHING, newest: int = 0) -> Keep | None:
    return fates([found], names, NOW, min_age=WEEK, newest=newest)[0].keep


def test_a_model_that_nobody_names_goes_once_it_is_old_enough() -> None:
    assert fate(model("m/1")) is None
    assert fate(model("m/1", age=WEEK - timedelta(seconds=1))) is Keep.YOUNG


def test_a_model_stays_that_is_named_by_digest_or_by_place() -> None:
    one = model("m/1")
    assert fate(one, Names({one.digest or "": "prod/chat"}, {})) is Keep.NAMED
    assert fate(one, Names({}, {one.location: "prod/chat"})) is Keep.NAMED


def test_the_newest_models_of_each_name_stay() -> None:
    found = [model(f"m/{days}", str(days), timedelta(days=days)) for days in (10, 20, 30)]
    other = model("n/1", name="n")
    decided = fates([*found, other], NOTHING, NOW, min_age=WEEK, newest=1)
    assert [one.keep for one in decided] == [Keep.NEWEST, None, None, Keep.NEWEST]


def test_rests_of_a_push_go_and_other_peoples_objects_stay() -> None:
    rest = Found(Location("b", "x"), ("x/w",), 3, OLD)
    assert fate(rest) is None
    assert fate(rest._replace(pushed=False)) is Keep.FOREIGN
    assert fate(rest._replace(changed_at=NOW)) is Keep.YOUNG


def test_what_cannot_be_read_stays() -> None:
    assert fate(Found(Location("b", "x"), ("x/manifest.json",), 3, OLD, "sha256:" + "b" * 64, None, "bad")) is (
        Keep.UNREADABLE
    )


digests = st.text("0123456789abcdef", min_size=64, max_size=64)


@given(digests, digests, digests, st.booleans())
def test_a_digest_is_found_wherever_a_resource_names_it(spec: str, status: str, deep: str, prefixed: bool) -> None:
    resource = {
        "metadata": {"namespace": "prod", "name": "chat"},
        "spec": {"model": {"sha256": f"sha256:{spec}" if prefixed else spec, "uri": "s3://bkt/m/1/"}},
        "status": {"active": {"digest": f"sha256:{status}"}, "history": [{"recipe": {"model": {"sha256": deep}}}]},
    }
    names = names_of([resource])
    assert set(names.digests) == {f"sha256:{one}" for one in (spec, status, deep)}
    assert names.locations == {Location("bkt", "m/1"): "prod/chat"}


def test_a_resource_without_a_status_is_no_error() -> None:
    assert names_of([{"metadata": {"name": "chat"}, "spec": {}}]) == Names({}, {})


def test_equal_manifests_do_not_differ_and_each_change_is_named_once() -> None:
    item = EvaluationItem(text="a", nll=2.0, tokens=1)
    left = manifest("1", "config.json", "w.txt", evaluation=[item])
    right = manifest("2", "config.json", "x.txt", evaluation=[item.with_(nll=3.0)])
    assert differences(left, left) == []
    assert [(one.field, one.left is None, one.right is None) for one in differences(left, right)] == [
        ("version", False, False),
        ("files.w.txt", False, True),
        ("files.x.txt", True, False),
        ("evaluation.1.nll", False, False),
    ]


@pytest.mark.parametrize(("text", "span"), [("7d", WEEK), ("12h", timedelta(hours=12)), ("0s", timedelta())])
def test_a_time_span_is_a_number_with_a_unit(text: str, span: timedelta) -> None:
    assert duration(text) == span


@pytest.mark.parametrize("text", ["7", "d", "-1d", "1w", ""])
def test_any_other_time_span_is_wrong_usage(text: str) -> None:
    with pytest.raises(CliError, match="--min-age"):
        duration(text)


@pytest.mark.parametrize(
    ("uri", "place"),
    [("s3://models", ("models", "")), ("s3://models/", ("models", "")), ("s3://models/a/b", ("models", "a/b"))],
)
def test_a_place_may_be_a_whole_bucket(uri: str, place: tuple[str, str]) -> None:
    assert options.place(uri) == place


@pytest.mark.parametrize("uri", ["models", "s3://", "s3://M", "s3:///x"])
def test_any_other_place_is_wrong_usage(uri: str) -> None:
    with pytest.raises(CliError, match="uri"):
        options.place(uri)


def test_bytes_are_shown_in_units_of_a_thousand() -> None:
    assert [size(count) for count in (999, 1500, 2_500_000, 3 * 10**9)] == ["999 B", "1.5 kB", "2.5 MB", "3.0 GB"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    item = EvaluationItem(text="a", nll=2, tokens=1)
    (tmp_path / "config.json").write_text("{ }")
    (tmp_path / "manifest.json").write_bytes(manifests.dump(manifest(evaluation=[item])))
    return tmp_path


def test_show_names_files_and_how_each_number_came_to_be(folder: Path) -> None:
    ended = CliRunner().invoke(app, ["show", str(folder)])
    assert ended.exit_code == 0
    assert "config.json" in ended.stdout
    assert "recorded perplexity 7.389" in ended.stdout
    said = json.loads(CliRunner().invoke(app, ["show", str(folder), "-o", "json"]).stdout)
    assert said["manifest"]["name"] == "m"


def test_diff_of_one_model_with_itself_is_nothing(folder: Path) -> None:
    ended = CliRunner().invoke(app, ["diff", str(folder), str(folder)])
    assert (ended.exit_code, ended.stdout) == (0, "")


def test_diff_of_two_models_has_an_exit_code_of_its_own(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "config.json").write_text("{ }")
    (other / "manifest.json").write_bytes(manifests.dump(manifest("2")))
    ended = CliRunner().invoke(app, ["diff", str(folder), str(other)])
    assert ended.exit_code == 4
    assert "- version: 1\n+ version: 2\n" in ended.stdout
