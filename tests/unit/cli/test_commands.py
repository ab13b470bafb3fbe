"""The commands as they are called."""

import json
from pathlib import Path

import pytest
from backstay_cli.console import result_json
from backstay_cli.errors import EXIT_HELP, Exit
from backstay_cli.main import app
from backstay_cli.model import check
from backstay_contract import manifest as manifests
from backstay_contract.manifest import Architecture, Manifest, ModelFile
from typer.testing import CliRunner

RUN = CliRunner(env={"BACKSTAY_STORAGE_ENDPOINT": "", "KUBECONFIG": "/nowhere", "COLUMNS": "200"})


@pytest.fixture
def pulled(tmp_path: Path) -> Path:
    """A folder as a pull leaves it."""
    folder = tmp_path / "model"
    (folder / "d").mkdir(parents=True)
    for path, data in (("config.json", b"{}"), ("d/w.txt", b"12345")):
        (folder / path).write_bytes(data)
    files = [
        ModelFile(
            path=path, size=(folder / path).stat().st_size, sha256=manifests.digest_of((folder / path).read_bytes())
        )
        for path in ("config.json", "d/w.txt")
    ]
    manifest = Manifest(name="m", version="1", files=tuple(files), architecture=Architecture(family="llama"))
    (folder / "manifest.json").write_bytes(manifests.dump(manifest))
    return folder


def test_every_command_has_help_that_names_its_exit_codes() -> None:
    commands = [one.name or one.callback.__name__ for one in app.registered_commands if one.callback]
    assert {"push", "verify", "render", "status", "history", "retry", "promote", "version"} <= set(commands)
    for name in commands:
        ended = RUN.invoke(app, [name, "--help"])
        assert ended.exit_code == 0
        if name != "version":
            assert "Exit codes" in ended.output, name


def test_the_help_of_exit_codes_names_all_of_them() -> None:
    assert [code for code in Exit if f"{code.value} " not in EXIT_HELP] == []


def test_wrong_usage_has_a_code_of_its_own_and_one_line() -> None:
    ended = RUN.invoke(app, ["verify", "s3://models/m/1"])
    assert ended.exit_code == 2
    assert "--endpoint" in ended.output


def test_a_pulled_folder_verifies_and_prints_its_digest(pulled: Path) -> None:
    digest = manifests.digest_of((pulled / "manifest.json").read_bytes())
    ended = RUN.invoke(app, ["verify", str(pulled), "--sha256", digest])
    assert ended.exit_code == 0
    assert ended.stdout.startswith(digest)


@pytest.mark.parametrize(
    ("damage", "path"),
    [("flip", "d/w.txt"), ("cut", "d/w.txt"), ("remove", "config.json"), ("add", "x.txt"), ("pin", "manifest.json")],
)
def test_whatever_is_wrong_with_a_folder_is_named(pulled: Path, damage: str, path: str) -> None:
    pinned = []
    if damage == "flip":
        (pulled / path).write_bytes(b"12346")
    elif damage == "cut":
        (pulled / path).write_bytes(b"1234")
    elif damage == "remove":
        (pulled / path).unlink()
    elif damage == "add":
        (pulled / path).write_bytes(b"")
    else:
        pinned = ["--sha256", "0" * 64]
    ended = RUN.invoke(app, ["verify", str(pulled), "-o", "json", *pinned])
    assert ended.exit_code == 4
    said = json.loads(ended.stdout)
    assert (said["ok"], [one["path"] for one in said["findings"]]) == (False, [path])


def test_a_folder_without_a_manifest_is_not_found(tmp_path: Path) -> None:
    ended = RUN.invoke(app, ["verify", str(tmp_path)])
    assert ended.exit_code == 5
    assert "manifest.json" in ended.output


def test_a_digest_that_is_none_is_wrong_usage(pulled: Path) -> None:
    assert RUN.invoke(app, ["verify", str(pulled), "--sha256", "latest"]).exit_code == 2


def test_status_without_a_cluster_says_so() -> None:
    ended = RUN.invoke(app, ["status"])
    assert ended.exit_code == 7
    assert "KUBECONFIG" in ended.output
    assert RUN.invoke(app, ["status", "chat", "--all-namespaces"]).exit_code == 2


def test_the_version_is_the_distributions() -> None:
    ended = RUN.invoke(app, ["version"])
    assert ended.stdout.strip().count(".") == 2


def test_a_result_for_scripts_is_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    result_json({"a": "ü"})
    assert json.loads(capsys.readouterr().out) == {"a": "ü"}


def test_comparing_a_file_says_what_differs_first() -> None:
    file = ModelFile(path="w", size=3, sha256="a" * 64)
    assert check.compare(file, 3, f"sha256:{'a' * 64}") is None
    size = check.compare(file, 4, f"sha256:{'a' * 64}")
    digest = check.compare(file, 3, f"sha256:{'b' * 64}")
    assert size is not None
    assert digest is not None
    assert (size.actual, digest.expected) == ("4 bytes", f"sha256:{'a' * 64}")
