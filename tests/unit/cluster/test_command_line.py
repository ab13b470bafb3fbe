import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from backstay_cluster import commands, execution, node, prerequisites, running, state
from backstay_cluster.cluster import Cluster, settle
from backstay_cluster.errors import ClusterError
from backstay_cluster.main import main, parser, shielded
from backstay_cluster.prerequisites import Command, Finding
from backstay_cluster.progress import Progress


@pytest.mark.parametrize(
    ("argv", "name", "rest"),
    [
        (["kubectl", "get", "pods", "-A"], "dev", ["get", "pods", "-A"]),
        (["kubectl", "-n", "x", "get", "pods", "--name", "y"], "dev", ["-n", "x", "get", "pods", "--name", "y"]),
        (["kubectl", "--name", "two", "exec", "p", "--", "ls", "-l"], "two", ["exec", "p", "--", "ls", "-l"]),
        (["exec", "--name=two", "--", "sh", "-c", "a", "--", "b"], "two", ["sh", "-c", "a", "--", "b"]),
        (["exec", "ls"], "dev", ["ls"]),
        (["exec"], "dev", []),
    ],
)
def test_another_programs_options_are_passed_on_untouched(argv: list[str], name: str, rest: list[str]) -> None:
    options = parser().parse_args(shielded(argv))
    assert options.name == name
    assert commands.passed_on(options) == rest


def test_our_own_verbs_refuse_what_they_do_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["status", "--nonsense"])
    assert ended.value.code == 2
    assert "--nonsense" in capsys.readouterr().err


@pytest.fixture
def nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTAY_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("BACKSTAY_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("nothing_runs")
def test_the_status_of_no_cluster_is_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "-o", "json"]) == 3
    assert json.loads(capsys.readouterr().out) == {"name": "dev", "healthy": False, "mode": None, "components": []}


@pytest.mark.usefixtures("nothing_runs")
def test_the_status_names_each_component_that_does_not_run() -> None:
    cluster = settle("dev")
    assert [each["name"] for each in state.report("dev")["components"]][:2] == ["etcd", "kube-apiserver"]
    running.pid_file(cluster, "containerd").parent.mkdir()
    running.pid_file(cluster, "containerd").write_text("{}")
    report = state.report("dev")
    assert report["mode"] == "node"
    assert report["components"][-1] == {"name": "kube-proxy", "pid": None, "trouble": "not running"}
    assert report["healthy"] is False


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("argv", [["logs", "etcd"], ["kubectl", "get", "pods"], ["exec", "ls"], ["shell"]])
def test_verbs_for_a_running_cluster_say_how_to_start_one(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 1
    assert "up --name dev" in capsys.readouterr().err


@pytest.mark.usefixtures("nothing_runs")
def test_the_log_of_an_unknown_component_names_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = settle("dev")
    cluster.logs.mkdir()
    (cluster.logs / "etcd.log").write_text("ready\n")
    assert main(["logs", "nonsense"]) == 1
    assert "there are etcd" in capsys.readouterr().err
    assert main(["logs", "etcd"]) == 0
    assert capsys.readouterr().out == "ready\n"


def test_a_command_in_the_cluster_finds_its_kubeconfig_and_programs(paper: Cluster) -> None:
    found = execution.environment(paper, {"PATH": "/bin", "KUBECONFIG": "/home/other", "TERM": "x"})
    assert found["KUBECONFIG"] == str(paper.kubeconfig)
    assert found["PATH"] == f"{paper.bin}:/bin"
    assert found["TERM"] == "x"


def test_the_commands_words_reach_it_as_they_are(paper: Cluster) -> None:
    argv = ["sh", "-c", "echo $0 'a b'"]
    for names in (True, False):
        assert execution.command(paper, argv, names=names)[-3:] == argv
    assert execution.command(paper, argv, names=False)[0] == "nsenter"


def _deployment(namespace: str, conditions: list[dict[str, str]]) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": "x"}, "status": {"conditions": conditions}}


def test_only_the_clusters_own_deployments_are_waited_for() -> None:
    yes, no = {"type": "Available", "status": "True"}, {"type": "Available", "status": "False"}
    listed = {
        "items": [
            _deployment("default", [no]),
            _deployment("kube-system", [{"type": "Progressing", "status": "True"}, yes]),
            _deployment("minio", [no]),
            {"metadata": {"namespace": "monitoring", "name": "new"}},
        ]
    }
    assert node.unavailable(listed) == ["minio/x", "monitoring/new"]


def test_a_missing_program_is_named_with_its_package() -> None:
    (_, finding, *_) = prerequisites.check([Command("no-such-program", "no-such-package", "does nothing")])
    assert (finding.met, finding.remedy) == (False, "apt-get install no-such-package")


def test_what_cannot_be_installed_is_told_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = [Finding("root", False, "uid 7", "run with sudo"), Finding("runc", False, "not found", "get it", "runc")]
    monkeypatch.setattr(prerequisites, "check", lambda commands: lacking)
    monkeypatch.setattr("os.geteuid", lambda: 7)
    with pytest.raises(ClusterError) as refused:
        prerequisites.require([], Progress(StringIO()))
    assert "root: uid 7; run with sudo" in str(refused.value)
    assert "runc: not found; get it" in str(refused.value)
