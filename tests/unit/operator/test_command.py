from typing import Any

import pytest
from backstay_operator import __main__ as command


def test_a_missing_setting_ends_with_2_and_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BACKSTAY_RUNTIME_IMAGE", raising=False)
    assert command.main(["run"]) == 2
    assert "BACKSTAY_RUNTIME_IMAGE: is not set" in capsys.readouterr().err


def test_without_a_cluster_it_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert command.main(["release"]) == 2
    assert "no cluster" in capsys.readouterr().err


def test_a_verb_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main([])
    assert end.value.code == 2
    assert "run" in capsys.readouterr().err
