"""Generated files are committed, fresh, and small enough for what they are for."""

import runpy
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GENERATOR = runpy.run_path(str(ROOT / "tools" / "generate.py"))
FILES: Mapping[str, Callable[[], str]] = GENERATOR["FILES"]
NEED_HELM = {"manifests/install.yaml"}
"""Rendered by helm, which the unit tests do not need: tests/integration/chart checks these."""


@pytest.mark.parametrize("name", sorted(set(FILES) - NEED_HELM))
def test_a_generated_file_is_fresh(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == FILES[name](), f"{name} is stale: run `make generate`"


def test_the_crd_in_the_installed_manifest_is_the_committed_one() -> None:
    crd = yaml.safe_load((ROOT / "crds" / "backstay.dev_modeldeployments.yaml").read_text())
    installed = yaml.safe_load_all((ROOT / "manifests" / "install.yaml").read_text())

    found = next(item for item in installed if item["kind"] == "CustomResourceDefinition")
    assert found["spec"] == crd["spec"], "manifests/install.yaml is stale: run `make generate`"


def test_the_crd_can_be_applied_client_side() -> None:
    # kubectl keeps the whole object in an annotation, and all annotations together hold 256 KiB.
    assert (ROOT / "crds" / "backstay.dev_modeldeployments.yaml").stat().st_size < 200 * 1024


def test_the_generator_names_what_is_stale_and_writes_nothing_when_it_only_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main = GENERATOR["main"]
    (tmp_path / "fresh.md").write_text("new")
    (tmp_path / "stale.md").write_text("old")
    monkeypatch.setitem(main.__globals__, "ROOT", tmp_path)
    monkeypatch.setitem(main.__globals__, "FILES", {"fresh.md": lambda: "new", "stale.md": lambda: "new"})

    assert main(["--check"]) == 1
    assert "stale: stale.md; run `make generate`" in capsys.readouterr().err
    assert (tmp_path / "stale.md").read_text() == "old"

    assert main([]) == 0
    assert (tmp_path / "stale.md").read_text() == "new"
    assert main(["--check"]) == 0


def test_a_missing_helm_leaves_its_files_alone_and_fails_only_where_helm_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = GENERATOR["main"]

    def missing() -> str:
        raise GENERATOR["HelmMissingError"]

    (tmp_path / "rendered.yaml").write_text("as it was")
    monkeypatch.setitem(main.__globals__, "ROOT", tmp_path)
    monkeypatch.setitem(main.__globals__, "FILES", {"rendered.yaml": missing})

    assert main(["--check"]) == 0
    assert main([]) == 0
    assert main(["--check", "--require-helm"]) == 3
    assert (tmp_path / "rendered.yaml").read_text() == "as it was"
