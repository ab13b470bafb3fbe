"""Whose cluster the demo goes to, found out with a kubectl that answers as it is told."""

from pathlib import Path

import pytest
from backstay_cluster.cluster import run_root
from backstay_cluster.progress import Progress

from tests.e2e.story import place, places

ANSWERS = """\
#!/bin/sh
case "$1" in
  version) exit 0 ;;
  config) echo my-context ;;
  get) echo '{"items": [{"metadata": {"name": "minio", "labels": {}}}]}' ;;
esac
"""
SILENT = "#!/bin/sh\necho 'connection refused' >&2\nexit 1\n"


def machine(folder: Path, kubectl: str | None = ANSWERS, **more: str) -> dict[str, str]:
    """A machine with a kubeconfig and, if given, a kubectl; as environment variables."""
    (folder / ".kube").mkdir()
    (folder / ".kube" / "config").write_text("")
    if kubectl is not None:
        (folder / "kubectl").write_text(kubectl)
        (folder / "kubectl").chmod(0o755)
    return {"HOME": str(folder), "PATH": f"{folder}", **more}


def test_a_cluster_that_answers_is_taken(tmp_path: Path) -> None:
    assert place.given_cluster(machine(tmp_path)) is not None


def test_a_kubeconfig_named_by_its_variable_counts_too(tmp_path: Path) -> None:
    environment = machine(tmp_path, KUBECONFIG=str(tmp_path / "elsewhere"))
    (tmp_path / ".kube" / "config").unlink()
    assert place.given_cluster(environment) is not None


def test_a_cluster_that_does_not_answer_is_not_taken(tmp_path: Path) -> None:
    assert place.given_cluster(machine(tmp_path, SILENT)) is None


def test_without_kubectl_or_kubeconfig_there_is_no_given_cluster(tmp_path: Path) -> None:
    environment = machine(tmp_path, kubectl=None)
    assert place.given_cluster(environment) is None
    (tmp_path / "kubectl").write_text(ANSWERS)
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / ".kube" / "config").unlink()
    assert place.given_cluster(environment) is None


def test_a_person_can_ask_for_a_node_of_this_machine(tmp_path: Path) -> None:
    assert place.given_cluster(machine(tmp_path, **{place.OWN_NODE: "1"})) is None


def test_the_project_s_own_node_is_no_given_cluster(tmp_path: Path) -> None:
    assert place.given_cluster(machine(tmp_path, KUBECONFIG=str(run_root() / "dev" / "kubeconfig"))) is None


def test_a_given_cluster_without_images_is_left_alone_and_told_why(tmp_path: Path) -> None:
    environment = machine(tmp_path)
    kube = place.given_cluster(environment)
    assert kube is not None
    with pytest.raises(place.DemoError, match=r"my-context(.|\n)*BACKSTAY_RUNTIME_IMAGE"):
        place.given_place(kube, environment, Progress())


def test_somebody_else_s_namespace_is_left_alone(tmp_path: Path) -> None:
    environment = machine(tmp_path, **{place.OPERATOR_IMAGE: "o", place.RUNTIME_IMAGE: "r"})
    kube = place.given_cluster(environment)
    assert kube is not None
    with pytest.raises(place.DemoError, match="not the demo's"):
        place.given_place(kube, environment, Progress())


def test_a_disk_that_is_nearly_full_is_told_before_anything_starts() -> None:
    places.require_room(places.NEEDED_BYTES)
    with pytest.raises(place.DemoError, match="make room"):
        places.require_room(places.NEEDED_BYTES - 1)
