import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from backstay_cluster.errors import ClusterError
from backstay_cluster.images import debian, manifests, recipes

ADDONS = manifests.FOLDER / "addons"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BACKSTAY_CACHE", str(tmp_path))
    monkeypatch.setattr(debian, "package_files", lambda *packages: packages)
    return tmp_path


def documents(folder: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(manifests.render_manifests(folder)))


def pod_specs() -> Iterator[tuple[str, dict[str, Any]]]:
    for document in (*documents(manifests.FOLDER), *documents(ADDONS)):
        if document["kind"] == "Deployment":
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]


def test_there_is_a_pod_for_each_service_of_the_cluster() -> None:
    assert {name for name, _ in pod_specs()} == {"coredns", "minio", "prometheus", "alertmanager"}


def test_every_pod_runs_without_root_and_without_a_writable_root_folder() -> None:
    for name, spec in pod_specs():
        assert spec["securityContext"]["runAsNonRoot"], name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"], name
            assert not context["allowPrivilegeEscalation"], name
            assert context["capabilities"] == {"drop": ["ALL"]}, name


def test_pods_that_ask_the_api_nothing_get_no_token_for_it() -> None:
    tokens = {name: spec.get("automountServiceAccountToken", True) for name, spec in pod_specs()}
    assert tokens == {"coredns": True, "minio": False, "prometheus": True, "alertmanager": False}


def test_no_image_is_ever_asked_from_a_registry() -> None:
    for name, spec in pod_specs():
        for container in spec["containers"]:
            assert container["imagePullPolicy"] == "Never", name
            assert container["image"] == recipes.recipe(container["name"]).target().reference


def test_roles_allow_reading_and_nothing_else() -> None:
    for document in (*documents(manifests.FOLDER), *documents(ADDONS)):
        for rule in document.get("rules", []):
            assert set(rule["verbs"]) <= {"list", "watch"}
            assert not {"secrets", "configmaps", "*"}.intersection(rule["resources"])


def test_namespaces_come_before_what_lives_in_them() -> None:
    seen = {"kube-system"}
    for document in (*documents(manifests.FOLDER), *documents(ADDONS)):
        if document["kind"] == "Namespace":
            seen.add(document["metadata"]["name"])
        assert document["metadata"].get("namespace", "kube-system") in seen, document["metadata"]


def test_the_cluster_dns_has_the_address_that_pods_are_told() -> None:
    (service,) = [document for document in documents(manifests.FOLDER) if document["kind"] == "Service"]
    assert service["spec"]["clusterIP"] == "10.96.0.10"


def test_other_images_may_be_named_for_a_cluster_with_a_registry() -> None:
    text = manifests.render_manifests(ADDONS / "minio.yaml", images={"minio": "example.com/minio:1"})
    assert 'image: "example.com/minio:1"' in text


def test_a_secret_is_random_stays_the_same_and_is_its_owners_alone(cache: Path, tmp_path: Path) -> None:
    first = manifests.render_manifests(ADDONS / "minio.yaml")
    assert manifests.render_manifests(ADDONS / "minio.yaml") == first
    (file,) = cache.glob("addons/secrets.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    assert manifests.render_manifests(ADDONS / "minio.yaml") != first


def test_no_secret_is_committed() -> None:
    (secret,) = [
        document for document in yaml.safe_load_all((ADDONS / "minio.yaml").read_text()) if document["kind"] == "Secret"
    ]
    assert secret["stringData"]["secretKey"] == "@@secret.minio-root@@"


@pytest.mark.parametrize("text", ["@@colour.blue@@", "@@image.nothing@@"])
def test_a_placeholder_without_a_meaning_is_an_error_that_names_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"x: {text}")
    with pytest.raises(ClusterError, match=r"colour|nothing"):
        manifests.render_manifests(tmp_path)


def test_text_without_placeholders_stays_as_it_is() -> None:
    assert manifests.fill("a: $1 ${2} {{x}} user@example.com @@", {}) == "a: $1 ${2} {{x}} user@example.com @@"


def test_prometheus_discovers_pods_by_label_and_asks_each_at_the_port_it_announces() -> None:
    (config,) = [d for d in documents(ADDONS) if d["kind"] == "ConfigMap" and d["metadata"]["name"] == "prometheus"]
    job = yaml.safe_load(config["data"]["prometheus.yml"])["scrape_configs"][0]
    assert job["kubernetes_sd_configs"][0]["selectors"][0]["label"] == "app.kubernetes.io/managed-by=backstay"
    targets = {rule.get("target_label") for rule in job["relabel_configs"]}
    assert {"__address__", "namespace", "pod"} <= targets
