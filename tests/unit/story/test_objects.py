"""What the demo applies."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.story import install, kube, objects, settings

MANIFESTS = install.MANIFESTS.read_text()


def installed(**environment: str) -> list[dict[str, Any]]:
    return objects.installation(MANIFESTS, operator_image="o:1", runtime_image="r:1", environment=environment)


def operator_pod(found: list[dict[str, Any]]) -> dict[str, Any]:
    (deployment,) = (one for one in found if one["kind"] == "Deployment")
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return pod


def test_the_operator_runs_the_given_images_and_nothing_is_set_twice() -> None:
    (container,) = operator_pod(installed(BACKSTAY_WATCH_NAMESPACES="demo"))["containers"]
    assert container["image"] == "o:1"
    names = [variable["name"] for variable in container["env"]]
    assert len(set(names)) == len(names)
    values = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert values["BACKSTAY_RUNTIME_IMAGE"] == "r:1"
    assert values["BACKSTAY_WATCH_NAMESPACES"] == "demo"
    assert values["BACKSTAY_CONTROL_KEY_FILE"]


def test_services_leave_no_variables_in_the_operator_s_pod() -> None:
    assert operator_pod(installed())["enableServiceLinks"] is False


def test_the_installation_has_the_crd_and_a_marked_namespace() -> None:
    found = installed()
    assert "CustomResourceDefinition" in {one["kind"] for one in found}
    (namespace,) = (one for one in found if one["kind"] == "Namespace")
    assert namespace["metadata"]["name"] == settings.SYSTEM
    assert settings.MARK in namespace["metadata"]["labels"]


def test_manifests_without_an_operator_are_refused() -> None:
    with pytest.raises(ValueError, match="0 containers"):
        objects.installation(
            "kind: Namespace\nmetadata: {name: x}\n", operator_image="", runtime_image="", environment={}
        )


def test_settings_come_beside_what_was_rendered_and_leave_it_as_it_was() -> None:
    rendered: dict[str, Any] = {
        "metadata": {"name": "chat"},
        "spec": {"model": {"name": "m"}, "rollout": {"promotion": "Manual"}},
    }
    asked = objects.asked(rendered, serving={"threads": 1}, rollout={"soak": {"minSeconds": 1}})
    assert asked["spec"]["rollout"] == {"promotion": "Manual", "soak": {"minSeconds": 1}}
    assert asked["spec"]["serving"] == {"threads": 1}
    assert "serving" not in rendered["spec"]


def test_an_annotation_changes_nothing_else() -> None:
    resource: dict[str, Any] = {"metadata": {"name": "chat"}, "spec": {"replicas": 1}}
    changed = objects.annotated(resource, note="again")
    assert changed["metadata"]["annotations"] == {"note": "again"}
    assert changed["spec"] == resource["spec"]
    assert "annotations" not in resource["metadata"]


@pytest.mark.parametrize("kind", settings.KINDS)
def test_the_load_s_pods_are_hardened_and_ask_the_active_service(kind: str) -> None:
    pod = objects.load_pod(kind, "r:1")
    (container,) = pod["spec"]["containers"]
    assert f"--url=http://{settings.RESOURCE}.{settings.DEMO}.svc" in container["command"]
    assert f"--kind={kind}" in container["command"]
    assert container["securityContext"] == objects.SECURITY
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert yaml.safe_dump(pod)


def test_the_load_s_program_is_one_file_of_the_standard_library() -> None:
    source = Path(install.__file__).with_name("client") / "load.py"
    imported = {
        line.split()[1].split(".")[0]
        for line in source.read_text().splitlines()
        if line.startswith(("import ", "from "))
    }
    assert imported <= {
        "argparse",
        "asyncio",
        "contextlib",
        "itertools",
        "json",
        "sys",
        "time",
        "collections",
        "functools",
        "typing",
        "urllib",
    }


def test_what_is_applied_means_the_same_to_every_reader_of_yaml() -> None:
    assert '"n": 1' in kube.document([{"n": 1}]), "a bare n is false in YAML 1.1"
