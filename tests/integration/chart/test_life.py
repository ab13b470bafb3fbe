"""helm install, upgrade and uninstall on a real API server. There is no node, so pods are made and stay pending."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from backstay_cluster.control_plane import ControlPlane
from backstay_cluster.errors import ClusterError
from backstay_contract import names

from tests.integration.harness.definitions import wait_until_established
from tests.integration.harness.monitoring import GROUP, definition
from tests.integration.harness.monitoring import name as name_of
from tests.integration.harness.operator_process import OperatorProcess

pytestmark = pytest.mark.control_plane

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "backstay"
CRD = f"{names.PLURAL}.{names.GROUP}"
SAMPLE = ROOT / "manifests" / "samples" / "cpu.yaml"

Helm = Callable[..., str]
Found = TypeVar("Found")


@pytest.fixture
def run_helm(helm: Path, control_plane: ControlPlane, namespace: str) -> Iterator[Helm]:
    """helm in the test's namespace. What a test leaves is removed, the CRD too: it belongs to one release."""

    def run(verb: str, *arguments: str) -> str:
        command = [str(helm), verb, *arguments, f"--namespace={namespace}", f"--kubeconfig={control_plane.kubeconfig}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    control_plane.kubectl("delete", "crd", CRD, "--ignore-not-found")
    yield run
    if json.loads(run("list", "--output=json")):
        run("uninstall", "backstay", "--no-hooks")
    control_plane.kubectl("delete", "crd", CRD, "--ignore-not-found")


@pytest.fixture
def get(control_plane: ControlPlane, namespace: str) -> Callable[..., Any]:
    """An object of the test's namespace, as JSON."""

    def read(*arguments: str) -> Any:
        return json.loads(control_plane.kubectl("get", *arguments, f"--namespace={namespace}", "--output=json"))

    return read


def eventually(look: Callable[[], Found | None], *, within_s: float = 60) -> Found:
    """What `look` finds; None means not yet."""
    until = time.monotonic() + within_s
    while True:
        found = look()
        if found is not None:
            return found
        assert time.monotonic() < until, "did not happen in time"
        time.sleep(0.2)


def a_pod_of(get: Callable[..., Any], component: str) -> Callable[[], Any]:
    """Looks for a pod that a controller made: it passed the API server's admission."""

    def look() -> Any:
        pods = get("pods", f"--selector=app.kubernetes.io/component={component}")["items"]
        return pods[0] if pods else None

    return look


def may(plane: ControlPlane, account: str, namespace: str, *what: str) -> bool:
    try:
        plane.kubectl("auth", "can-i", *what, f"--as={account}", f"--namespace={namespace}")
    except ClusterError:
        return False
    return True


def becomes(wanted: bool, plane: ControlPlane, account: str, namespace: str, *what: str) -> None:
    """Wait until the account may, or may not: the API server knows of a new role a moment after it is stored."""
    eventually(lambda: True if may(plane, account, namespace, *what) is wanted else None)


def chat(namespace: str, *, held: bool = False) -> str:
    """The sample's ModelDeployment; `held`: with the operator's finalizer, as a running operator would leave it."""
    resource = next(item for item in yaml.safe_load_all(SAMPLE.read_text()) if item["kind"] == names.KIND)
    resource["metadata"]["namespace"] = namespace
    if held:
        resource["metadata"]["finalizers"] = [f"{names.GROUP}/teardown"]
    return json.dumps(resource)


def test_an_installation_makes_the_operator_and_the_crd(
    run_helm: Helm, get: Callable[..., Any], control_plane: ControlPlane, namespace: str
) -> None:
    notes = run_helm("install", "backstay", str(CHART))

    assert f"kubectl -n {namespace} rollout status deployment/backstay" in notes
    pod = eventually(a_pod_of(get, "operator"))
    assert pod["spec"]["serviceAccountName"] == "backstay"
    wait_until_established(control_plane, CRD)
    assert len(base64.b64decode(get("secret", "backstay-control")["data"]["key"])) == 48


def test_an_upgrade_keeps_the_control_key_and_takes_new_values(run_helm: Helm, get: Callable[..., Any]) -> None:
    run_helm("install", "backstay", str(CHART))
    before = get("secret", "backstay-control")["data"]

    run_helm("upgrade", "backstay", str(CHART), "--set=image.tag=next")

    assert get("secret", "backstay-control")["data"] == before
    image = get("deployment", "backstay")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == "backstay/operator:next"


@pytest.mark.case("T38")
def test_an_upgrade_updates_the_crd(
    run_helm: Helm, control_plane: ControlPlane, tmp_path: Path, namespace: str
) -> None:
    older = tmp_path / "backstay"
    shutil.copytree(CHART, older)
    crd = yaml.safe_load((older / "files" / "crd.yaml").read_text())
    del crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["rollout"]
    (older / "files" / "crd.yaml").write_text(yaml.safe_dump(crd))
    run_helm("install", "backstay", str(older))
    wait_until_established(control_plane, CRD)
    resource = json.loads(chat(namespace))
    resource["spec"]["rollout"] = {"retryToken": "1"}
    applied = ("create", "--filename=-", "--validate=strict", "--dry-run=server")
    with pytest.raises(ClusterError, match=r"unknown field .spec\.rollout"):
        control_plane.kubectl(*applied, text=json.dumps(resource))

    run_helm("upgrade", "backstay", str(CHART))

    def taken() -> str | None:  # the API server serves a new schema a moment after it is stored
        try:
            return control_plane.kubectl(*applied, text=json.dumps(resource))
        except ClusterError:
            return None

    assert "created" in eventually(taken)


@pytest.mark.case("T36")
@pytest.mark.case("T38")
def test_an_upgrade_of_the_crd_keeps_every_field_of_what_is_stored(
    run_helm: Helm, get: Callable[..., Any], control_plane: ControlPlane, tmp_path: Path, namespace: str
) -> None:
    older = tmp_path / "backstay"
    shutil.copytree(CHART, older)
    crd = yaml.safe_load((older / "files" / "crd.yaml").read_text())
    version = crd["spec"]["versions"][0]
    fields = version["schema"]["openAPIV3Schema"]["properties"]
    for field in ("rollback", "networkPolicy", "deletionPolicy"):
        del fields["spec"]["properties"][field]
    for field in ("selector", "returning", "degraded"):
        del fields["status"]["properties"][field]
    del version["subresources"]["scale"]
    (older / "files" / "crd.yaml").write_text(yaml.safe_dump(crd))
    run_helm("install", "backstay", str(older))
    wait_until_established(control_plane, CRD)
    control_plane.kubectl("create", "--filename=-", text=chat(namespace))
    status = json.dumps({"status": {"phase": "Serving", "message": "since before", "replicas": 1}})
    within = f"--namespace={namespace}"
    control_plane.kubectl("patch", "mdep", "chat", within, "--subresource=status", "--type=merge", f"--patch={status}")
    before = get("mdep", "chat")

    run_helm("upgrade", "backstay", str(CHART))

    def upgraded() -> Any:
        found = get("mdep", "chat")
        return found if "networkPolicy" in found["spec"] else None

    after = eventually(upgraded)
    assert before["spec"].items() <= after["spec"].items()
    assert after["status"].items() >= before["status"].items()
    assert (after["spec"]["networkPolicy"], after["spec"]["deletionPolicy"]) == ("Managed", "Delete")
    control_plane.kubectl("scale", "mdep/chat", "--replicas=3", within)
    assert get("mdep", "chat")["spec"]["replicas"] == 3


@pytest.mark.case("T34", "T36")
def test_deleting_the_crd_ends_every_resource_and_their_children(
    run_helm: Helm, get: Callable[..., Any], control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    run_helm("install", "backstay", str(CHART))
    wait_until_established(control_plane, CRD)
    operator = OperatorProcess(control_plane, control_plane.kubeconfig, tmp_path)
    operator.start()
    try:
        operator.wait_until_healthy()
        control_plane.kubectl("create", "--filename=-", text=chat(namespace))
        children = ("deployments,services,pods", "--selector=app.kubernetes.io/name=backstay-model")
        assert eventually(lambda: get(*children)["items"] or None)

        control_plane.kubectl("delete", "crd", CRD, "--timeout=50s")

        assert eventually(lambda: True if not get(*children)["items"] else None)
    finally:
        operator.kill()


VALUES = {
    "defaults": [],
    "one-namespace": ["--set=watchNamespaces={{{namespace}}}"],
    "one-namespace-let-go": ["--set=watchNamespaces={{{namespace}}},rbac.releaseEverywhere=true"],
    "two-operators-shut-in": [
        "--set=replicas=2,networkPolicy.enabled=true",
        "--set=networkPolicy.clients[0].podSelector.matchLabels.app=prometheus",
    ],
    "monitored": [f"--api-versions={GROUP}/v1/ServiceMonitor", f"--api-versions={GROUP}/v1/PrometheusRule"],
    "everything-off": [
        "--set=crds.install=false,uninstallHook.enabled=false,metrics.serviceMonitor.enabled=false",
        "--set=models.networkPolicy.enabled=false,models.podMonitor.enabled=false,models.prometheusRule.enabled=false",
    ],
    "placed": [
        "--set=nodeSelector.pool=system,priorityClassName=system-cluster-critical",
        "--set=tolerations[0].operator=Exists,image.digest=sha256:" + "0" * 64,
        "--set=control.existingSecret=mine,log.format=text,podLabels.team=a,podAnnotations.note=b",
    ],
}


@pytest.fixture
def monitoring_kinds(control_plane: ControlPlane, name: str) -> Iterator[None]:
    """Those of the Prometheus operator, as long as the values that make them are tried."""
    wanted = ("ServiceMonitor", "PrometheusRule") if name == "monitored" else ()
    for kind in wanted:
        control_plane.kubectl("apply", "--filename=-", text=json.dumps(definition(kind)))
        wait_until_established(control_plane, name_of(kind))
    yield
    for kind in wanted:
        control_plane.kubectl("delete", "crd", name_of(kind))


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_real_api_server_takes_what_the_values_give(
    run_helm: Helm, control_plane: ControlPlane, monitoring_kinds: None, namespace: str, name: str
) -> None:
    options = [option.format(namespace=namespace) if "{{" in option else option for option in VALUES[name]]
    rendered = run_helm("template", "backstay", str(CHART), "--kube-version=1.37.2", *options)

    said = control_plane.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-", f"--namespace={namespace}",
        text=rendered,
    )  # fmt: skip

    objects = [one for one in yaml.safe_load_all(rendered) if one]
    assert said.count("serverside-applied (server dry run)") == len(objects)


def test_an_uninstallation_releases_the_resources_and_keeps_them_and_the_crd(
    run_helm: Helm, get: Callable[..., Any], control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    run_helm("install", "backstay", str(CHART))
    wait_until_established(control_plane, CRD)
    control_plane.kubectl("create", "--filename=-", text=chat(namespace, held=True))
    with ThreadPoolExecutor() as pool:
        uninstalling = pool.submit(run_helm, "uninstall", "backstay", "--timeout=90s")
        pod = eventually(a_pod_of(get, "release"))
        account = f"system:serviceaccount:{namespace}:{pod['spec']['serviceAccountName']}"
        command = pod["spec"]["containers"][0]["command"]
        becomes(True, control_plane, account, "default", "list", CRD)
        becomes(True, control_plane, account, namespace, "patch", CRD)
        more = [may(control_plane, account, namespace, *what) for what in (("delete", CRD), ("get", "secrets"))]
        operators = get("deployments", "--selector=app.kubernetes.io/component=operator")["items"]
        said = run_as(control_plane, namespace, pod["spec"]["serviceAccountName"], command, tmp_path)
        finish(control_plane, namespace, pod["metadata"]["name"])
        uninstalling.result()

    assert command == ["python", "-m", "backstay_operator", "release"]
    assert more == [False, False]
    assert operators == []  # nobody is left who would put the finalizers back
    assert said == "1 resources let go\n"
    assert "finalizers" not in get("mdep", "chat")["metadata"]
    assert control_plane.kubectl("get", "crd", CRD, "--output=name")
    becomes(False, control_plane, account, namespace, "patch", CRD)
    left = get("serviceaccounts,jobs,secrets,services,deployments")["items"]
    assert [item["metadata"]["name"] for item in left] == ["default"]


def run_as(plane: ControlPlane, namespace: str, account: str, command: list[str], folder: Path) -> str:
    """What the hook's container would print: its command, with its account's token and rights."""
    token = plane.kubectl("create", "token", account, f"--namespace={namespace}").strip()
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": "c", "cluster": {"server": plane.server, "certificate-authority": str(plane.authority)}}
                ],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    done = subprocess.run(
        [sys.executable, *command[1:]],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def finish(plane: ControlPlane, namespace: str, pod: str) -> None:
    """Say that the pod ended well, in place of the kubelet that is not there."""
    patch = json.dumps({"status": {"phase": "Succeeded"}})
    plane.kubectl("patch", "pod", pod, f"--namespace={namespace}", "--subresource=status", f"--patch={patch}")


def test_a_release_in_watched_namespaces_has_rights_there_and_nowhere_else(
    run_helm: Helm, control_plane: ControlPlane, namespace: str
) -> None:
    run_helm("install", "backstay", str(CHART), f"--set=watchNamespaces={{{namespace}}}")
    account = f"system:serviceaccount:{namespace}:backstay"

    asked = [
        ("patch", CRD),
        ("create", "deployments.apps"),
        ("get", "pods/log"),
        ("create", "events.events.k8s.io"),
    ]
    for what in asked:
        becomes(True, control_plane, account, namespace, *what)
    assert [may(control_plane, account, "default", *what) for what in asked] == [False] * 4
    assert not may(control_plane, account, namespace, "get", "secrets")
    assert not may(control_plane, account, namespace, "update", CRD)


def test_the_committed_manifest_installs_into_a_namespace_that_enforces_restricted_pods(
    run_helm: Helm, control_plane: ControlPlane
) -> None:
    manifest = ROOT / "manifests" / "install.yaml"
    control_plane.kubectl("apply", "--server-side", f"--filename={manifest}")
    try:

        def pod() -> str | None:
            return control_plane.kubectl("get", "pods", "--namespace=backstay-system", "--output=name") or None

        assert eventually(pod).startswith("pod/backstay-")
        label = control_plane.kubectl("get", "namespace", "backstay-system", "--output=jsonpath={.metadata.labels}")
        assert json.loads(label)["pod-security.kubernetes.io/enforce"] == "restricted"
    finally:
        control_plane.kubectl("delete", f"--filename={manifest}", "--wait=false")


def test_the_committed_manifest_can_be_applied_client_side_too(run_helm: Helm, control_plane: ControlPlane) -> None:
    crds = yaml.safe_load_all((ROOT / "manifests" / "install.yaml").read_text())
    crd = next(item for item in crds if item["kind"] == "CustomResourceDefinition")

    assert "created" in control_plane.kubectl("apply", "--filename=-", text=json.dumps(crd))
