"""The chart as helm renders it: no cluster needed, only helm."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from backstay_operator.desired.companions import Choice

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "backstay"
KUBERNETES = "--kube-version=1.37.2"

Object = dict[str, Any]


def helm_does(helm: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(helm), *arguments], capture_output=True, text=True, check=False)


def render(helm: Path, *options: str) -> dict[tuple[str, str], Object]:
    """The rendered objects by kind and name; with a namespace in front of the name where there are several."""
    done = helm_does(helm, "template", "backstay", str(CHART), "--namespace=ops", KUBERNETES, *options)
    assert done.returncode == 0, done.stderr
    objects = [item for item in yaml.safe_load_all(done.stdout) if item]
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def refusal(helm: Path, *options: str) -> str:
    done = helm_does(helm, "template", "backstay", str(CHART), KUBERNETES, *options)
    assert done.returncode != 0
    return done.stderr


def operator_pod(objects: dict[tuple[str, str], Object]) -> Object:
    pod: Object = objects["Deployment", "backstay"]["spec"]["template"]["spec"]
    return pod


def environment(pod: Object) -> dict[str, str]:
    return {item["name"]: item["value"] for item in pod["containers"][0]["env"] if "value" in item}


def allowed(role: Object) -> set[tuple[str, str, str]]:
    """What a role allows, as (group, resource, verb)."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def said_on_the_page(heading: str) -> set[tuple[str, str, str]]:
    """The rights that the table below a heading of docs/reference-rights.md lists."""
    page = (ROOT / "docs" / "reference-rights.md").read_text()
    section = page.partition(f"{heading}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {(group, place.split(" ")[0], verb) for group, place, verbs, _ in rows[2:] for verb in verbs.split()}


def test_the_chart_is_lint_clean(helm: Path) -> None:
    done = helm_does(helm, "lint", "--strict", str(CHART), KUBERNETES)

    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


def test_the_committed_manifest_is_the_rendered_chart(helm: Path) -> None:
    # The program finds the same helm by itself; it names what is stale.
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "generate.py"), "--check", "--require-helm"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


class TestValues:
    @pytest.mark.parametrize(
        ("option", "field"),
        [
            ("--set=replicas=0", "replicas"),
            ("--set=replica=2", "replica"),
            ("--set=image.tagg=x", "tagg"),
            ("--set=image.pullPolicy=Sometimes", "image/pullPolicy"),
            ("--set=image.digest=sha256:12", "image/digest"),
            ("--set=image.repository=", "image/repository"),
            ("--set=watchNamespaces={Bad_Name}", "watchNamespaces/0"),
            ("--set=watchNamespaces={a,a}", "watchNamespaces"),
            ("--set=prometheus.url=prometheus:9090", "prometheus/url"),
            ("--set=log.format=xml", "log/format"),
            ("--set-string=crds.install=yes", "crds/install"),
            ("--set=metrics.serviceMonitor.interval=often", "metrics/serviceMonitor/interval"),
            ("--set=uninstallHook.timeoutSeconds=0", "uninstallHook/timeoutSeconds"),
            ("--set=podLabels.a=1", "podLabels/a"),
            ("--set=models.disruptionBudget.maxUnavailable=0", "models/disruptionBudget/maxUnavailable"),
            ("--set=models.disruptionBudget.maxUnavailable=0%", "models/disruptionBudget/maxUnavailable"),
            ("--set=models.networkPolicy.clients[0].cidr=10.0.0.0/8", "models/networkPolicy/clients/0"),
            ("--set=models.podMonitor.interval=0s", "models/podMonitor/interval"),
            ("--set=models.prometheusRule.labels.a=1", "models/prometheusRule/labels/a"),
            ("--set=networkPolicy.clients[0].cidr=10.0.0.0/8", "networkPolicy/clients/0"),
            ("--set-string=rbac.releaseEverywhere=no", "rbac/releaseEverywhere"),
        ],
    )
    def test_a_wrong_value_is_refused_with_its_name(self, helm: Path, option: str, field: str) -> None:
        assert field in refusal(helm, option)

    def test_every_value_is_in_the_schema_with_its_default(self) -> None:
        schema = json.loads((CHART / "values.schema.json").read_text())
        values = yaml.safe_load((CHART / "values.yaml").read_text())

        assert set(values) | {"global"} == set(schema["properties"])

    def test_every_value_has_a_use(self) -> None:
        templates = "".join(file.read_text() for file in (CHART / "templates").iterdir())
        values = yaml.safe_load((CHART / "values.yaml").read_text())

        assert [name for name in values if f".Values.{name}" not in templates] == []

    def test_a_digest_wins_over_a_tag(self, helm: Path) -> None:
        digest = "sha256:" + "0" * 64
        options = [f"--set={image}.tag=v9,{image}.digest={digest}" for image in ("image", "runtimeImage")]

        pod = operator_pod(render(helm, *options))

        assert pod["containers"][0]["image"] == f"backstay/operator@{digest}"
        assert environment(pod)["BACKSTAY_RUNTIME_IMAGE"] == f"backstay/runtime@{digest}"

    def test_without_a_tag_both_images_have_the_charts_version(self, helm: Path) -> None:
        version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]

        pod = operator_pod(render(helm))

        assert pod["containers"][0]["image"] == f"backstay/operator:{version}"
        assert environment(pod)["BACKSTAY_RUNTIME_IMAGE"] == f"backstay/runtime:{version}"

    def test_a_long_release_name_still_gives_names_that_kubernetes_takes(self, helm: Path) -> None:
        done = helm_does(helm, "template", "r" * 53, str(CHART), KUBERNETES)

        names = [item["metadata"]["name"] for item in yaml.safe_load_all(done.stdout) if item]
        assert names
        assert all(len(name) <= 63 for name in names)

    def test_prometheus_is_passed_on_only_where_it_is_set(self, helm: Path) -> None:
        with_it = environment(operator_pod(render(helm, "--set=prometheus.url=http://prometheus:9090")))

        assert with_it["BACKSTAY_PROMETHEUS_URL"] == "http://prometheus:9090"
        assert "BACKSTAY_PROMETHEUS_URL" not in environment(operator_pod(render(helm)))


class TestModels:
    """The operator reads the setting with the very types that it makes the objects from."""

    def chosen(self, helm: Path, *options: str) -> Choice:
        return Choice.model_validate_json(environment(operator_pod(render(helm, *options)))["BACKSTAY_COMPANIONS"])

    def test_by_default_everything_is_made(self, helm: Path) -> None:
        chosen = self.chosen(helm)

        assert chosen.disruption_budget is not None
        assert chosen.disruption_budget.max_unavailable == "10%"
        assert chosen.network_policy is not None
        assert chosen.network_policy.clients == ({"namespaceSelector": {}},)
        assert chosen.pod_monitor is not None
        assert chosen.prometheus_rule is not None

    def test_the_network_policys_operator_is_the_operators_own_pod(self, helm: Path) -> None:
        template = render(helm)["Deployment", "backstay"]["spec"]["template"]
        network_policy = self.chosen(helm).network_policy

        assert network_policy is not None
        assert network_policy.operator.namespace == "ops"
        assert network_policy.operator.labels.items() <= template["metadata"]["labels"].items()

    def test_values_are_passed_on(self, helm: Path) -> None:
        chosen = self.chosen(
            helm,
            "--set=models.disruptionBudget.maxUnavailable=2",
            "--set=models.networkPolicy.clients[0].ipBlock.cidr=10.0.0.0/8",
            "--set=models.podMonitor.interval=15s,models.podMonitor.labels.release=kps",
            "--set=models.prometheusRule.severity=page",
        )

        assert chosen.disruption_budget is not None
        assert chosen.disruption_budget.max_unavailable == 2
        assert chosen.network_policy is not None
        assert chosen.network_policy.clients == ({"ipBlock": {"cidr": "10.0.0.0/8"}},)
        assert chosen.pod_monitor is not None
        assert (chosen.pod_monitor.interval, chosen.pod_monitor.labels) == ("15s", {"release": "kps"})
        assert chosen.prometheus_rule is not None
        assert chosen.prometheus_rule.severity == "page"

    def test_everybody_may_be_let_in(self, helm: Path) -> None:
        network_policy = self.chosen(helm, "--set-json=models.networkPolicy.clients=[]").network_policy

        assert network_policy is not None
        assert network_policy.clients == ()

    def test_each_can_be_switched_off(self, helm: Path) -> None:
        kinds = ("disruptionBudget", "networkPolicy", "podMonitor", "prometheusRule")
        off = ",".join(f"models.{kind}.enabled=false" for kind in kinds)

        assert self.chosen(helm, f"--set={off}") == Choice(disruption_budget=None)


class TestPod:
    @pytest.mark.parametrize("kind_and_name", [("Deployment", "backstay"), ("Job", "backstay-release")])
    def test_it_is_hardened(self, helm: Path, kind_and_name: tuple[str, str]) -> None:
        pod = render(helm)[kind_and_name]["spec"]["template"]["spec"]
        container = pod["containers"][0]["securityContext"]

        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["readOnlyRootFilesystem"] is True
        assert container["allowPrivilegeEscalation"] is False
        assert container["capabilities"] == {"drop": ["ALL"]}

    @pytest.mark.case("T14")
    def test_one_operator_acts_at_a_time_because_all_share_one_lease(self, helm: Path) -> None:
        objects = render(helm, "--set=replicas=2")
        spec = objects["Deployment", "backstay"]["spec"]
        (create, use) = objects["Role", "backstay-lease"]["rules"]

        assert spec["replicas"] == 2
        assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
        assert environment(spec["template"]["spec"])["BACKSTAY_LEASE_NAME"] == "backstay"
        assert (create["verbs"], use["verbs"], use["resourceNames"]) == (["create"], ["get", "patch"], ["backstay"])
        assert objects["Role", "backstay-lease"]["metadata"]["namespace"] == "ops"

    def test_it_has_probes_and_resources(self, helm: Path) -> None:
        container = operator_pod(render(helm))["containers"][0]

        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"] == {"path": "/healthz", "port": "health"}
        assert container["resources"]["requests"]["cpu"]
        assert container["resources"]["limits"]["memory"]

    def test_the_metrics_service_selects_the_operators_pod_and_not_the_hooks(self, helm: Path) -> None:
        objects = render(helm)
        selector = objects["Service", "backstay-metrics"]["spec"]["selector"].items()

        assert selector <= objects["Deployment", "backstay"]["spec"]["template"]["metadata"]["labels"].items()
        assert not selector <= objects["Job", "backstay-release"]["spec"]["template"]["metadata"]["labels"].items()


class TestRights:
    def test_the_operator_may_do_this_and_nothing_more(self, helm: Path) -> None:
        expected = {
            ("backstay.dev", "modeldeployments"): "get list watch patch",
            ("backstay.dev", "modeldeployments/status"): "get patch",
            ("apps", "deployments"): "get list watch create patch delete",
            ("", "services"): "get list watch create patch delete",
            ("", "pods"): "get list watch",
            ("", "pods/log"): "get",
            ("", "nodes"): "list",
            ("discovery.k8s.io", "endpointslices"): "get list watch",
            ("events.k8s.io", "events"): "list create patch",
            ("policy", "poddisruptionbudgets"): "get list create patch delete",
            ("networking.k8s.io", "networkpolicies"): "get list create patch delete",
            ("monitoring.coreos.com", "podmonitors"): "get list create patch delete",
            ("monitoring.coreos.com", "prometheusrules"): "get list create patch delete",
        }

        assert allowed(render(helm)["ClusterRole", "backstay"]) == {
            (*where, verb) for where, verbs in expected.items() for verb in verbs.split()
        }

    @pytest.mark.parametrize("option", ["capacityCheck.enabled=false", "watchNamespaces={a,b}"])
    def test_nodes_are_listed_only_where_the_whole_cluster_is_served_and_room_is_reckoned(
        self, helm: Path, option: str
    ) -> None:
        objects = render(helm, f"--set={option}")
        roles = [item for (kind, _), item in objects.items() if kind in ("ClusterRole", "Role")]

        assert not any(resource == "nodes" for role in roles for _, resource, _ in allowed(role))

    def test_the_page_about_rights_says_what_the_chart_grants(self, helm: Path) -> None:
        objects = render(helm)
        granted = {
            "## In the namespaces that it serves": objects["ClusterRole", "backstay"],
            "## In its own namespace": objects["Role", "backstay-lease"],
            "## The uninstall hook": objects["ClusterRole", "backstay-release"],
        }

        for heading, role in granted.items():
            assert said_on_the_page(heading) == allowed(role), heading

    def test_nothing_in_the_chart_may_read_secrets_or_use_a_wildcard(self, helm: Path) -> None:
        roles = [item for (kind, _), item in render(helm).items() if kind == "ClusterRole"]

        assert len(roles) == 2
        for role in roles:
            assert not any("*" in part or "secrets" in part for right in allowed(role) for part in right)

    def test_the_uninstall_hook_may_only_find_and_patch_the_resources(self, helm: Path) -> None:
        assert allowed(render(helm)["ClusterRole", "backstay-release"]) == {
            ("backstay.dev", "modeldeployments", "get"),
            ("backstay.dev", "modeldeployments", "list"),
            ("backstay.dev", "modeldeployments", "patch"),
        }

    def test_with_watched_namespaces_there_is_a_role_in_each_and_none_for_the_cluster(self, helm: Path) -> None:
        done = helm_does(
            helm, "template", "backstay", str(CHART), "--namespace=ops", KUBERNETES, "--set=watchNamespaces={one,two}"
        )
        objects = [item for item in yaml.safe_load_all(done.stdout) if item]

        places = {(o["kind"], o["metadata"].get("namespace")) for o in objects if "Role" in o["kind"]}
        assert places == {(kind, place) for kind in ("Role", "RoleBinding") for place in ("one", "two", "ops")}
        subjects = [o["subjects"][0] for o in objects if o["kind"] == "RoleBinding"]
        assert {subject["namespace"] for subject in subjects} == {"ops"}
        job = next(o for o in objects if o["kind"] == "Job")["spec"]["template"]["spec"]["containers"][0]
        assert job["args"] == ["--namespace=one", "--namespace=two"]
        deployment = next(o for o in objects if o["kind"] == "Deployment")
        assert environment(deployment["spec"]["template"]["spec"])["BACKSTAY_WATCH_NAMESPACES"] == "one,two"

    def test_a_namespace_that_is_deleted_with_its_role_can_be_let_go_where_that_is_wanted(self, helm: Path) -> None:
        objects = render(helm, "--set=watchNamespaces={one},rbac.releaseEverywhere=true")

        assert allowed(objects["ClusterRole", "backstay-let-go"]) == {
            ("backstay.dev", "modeldeployments", "get"),
            ("backstay.dev", "modeldeployments", "patch"),
        }
        assert ("ClusterRole", "backstay-let-go") not in render(helm, "--set=rbac.releaseEverywhere=true")


class TestSecret:
    def test_two_installations_have_two_keys(self, helm: Path) -> None:
        one, other = (render(helm)["Secret", "backstay-control"]["data"]["key"] for _ in range(2))

        assert one != other

    def test_an_existing_secret_is_used_and_none_is_made(self, helm: Path) -> None:
        objects = render(helm, "--set=control.existingSecret=mine")

        assert not [name for kind, name in objects if kind == "Secret"]
        assert operator_pod(objects)["volumes"][0]["secret"]["secretName"] == "mine"

    def test_the_committed_manifest_holds_no_key(self) -> None:
        objects = list(yaml.safe_load_all((ROOT / "manifests" / "install.yaml").read_text()))

        assert "Secret" not in {item["kind"] for item in objects}


class TestOperatorsOwn:
    def test_a_disruption_budget_is_there_only_over_several_pods_and_never_holds_up_a_drain(self, helm: Path) -> None:
        assert ("PodDisruptionBudget", "backstay") not in render(helm)
        budget = render(helm, "--set=replicas=2")["PodDisruptionBudget", "backstay"]["spec"]

        assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
        assert ("PodDisruptionBudget", "backstay") not in render(
            helm, "--set=replicas=2,podDisruptionBudget.enabled=false"
        )

    def test_a_network_policy_is_made_where_it_is_wanted_and_names_the_ports_that_there_are(self, helm: Path) -> None:
        assert ("NetworkPolicy", "backstay") not in render(helm)
        objects = render(
            helm,
            "--set=networkPolicy.enabled=true",
            "--set=networkPolicy.clients[0].namespaceSelector.matchLabels.team=monitoring",
        )
        (rule,) = objects["NetworkPolicy", "backstay"]["spec"]["ingress"]

        opened = {port["containerPort"] for port in operator_pod(objects)["containers"][0]["ports"]}
        assert {port["port"] for port in rule["ports"]} == opened
        assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]


class TestOptionalParts:
    MONITORING = ("monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule")

    def test_monitoring_objects_are_made_only_where_their_kinds_exist(self, helm: Path) -> None:
        without = {kind for kind, _ in render(helm)}
        with_them = {kind for kind, _ in render(helm, *(f"--api-versions={kind}" for kind in self.MONITORING))}

        assert with_them - without == {"ServiceMonitor", "PrometheusRule"}

    def test_they_can_be_switched_off(self, helm: Path) -> None:
        options = [f"--api-versions={kind}" for kind in self.MONITORING]
        off = "--set=metrics.serviceMonitor.enabled=false,metrics.prometheusRule.enabled=false"

        assert not {"ServiceMonitor", "PrometheusRule"} & {kind for kind, _ in render(helm, *options, off)}

    def test_alerts_reach_prometheus_with_its_own_templates_in_them(self, helm: Path) -> None:
        rule = render(helm, f"--api-versions={self.MONITORING[1]}")["PrometheusRule", "backstay"]
        alerts = {alert["alert"]: alert for alert in rule["spec"]["groups"][0]["rules"]}

        assert 'job="backstay-metrics", namespace="ops"' in alerts["BackstayOperatorDown"]["expr"]
        summary = alerts["BackstayNotReady"]["annotations"]["summary"]
        assert summary == "ModelDeployment {{ $labels.namespace }}/{{ $labels.name }} has no ready pod"

    def test_the_operators_own_alerts_name_the_resource_and_no_digest_so_that_none_is_taken_for_a_breach(
        self, helm: Path
    ) -> None:
        rule = render(helm, f"--api-versions={self.MONITORING[1]}")["PrometheusRule", "backstay"]
        itself = ("BackstayOperatorDown", "BackstayNobodyLeads")
        about = [one for one in rule["spec"]["groups"][0]["rules"] if one["alert"] not in itself]

        assert {one["alert"] for one in about} == {
            "BackstayNeedsAPerson", "BackstayRolledBack", "BackstayDegraded", "BackstayNotReady",
            "BackstayMetricsUnavailable",
        }  # fmt: skip
        for one in about:
            assert one["expr"].startswith("label_replace(max by (namespace, name) (backstay_")
            assert one["expr"].endswith('"modeldeployment", "$1", "name", "(.*)")')
            assert "digest" not in one["labels"]
            assert "digest" not in one["expr"]

    def test_the_monitor_selects_the_metrics_service(self, helm: Path) -> None:
        objects = render(helm, f"--api-versions={self.MONITORING[0]}")
        selector = objects["ServiceMonitor", "backstay"]["spec"]["selector"]["matchLabels"]

        assert selector.items() <= objects["Service", "backstay-metrics"]["metadata"]["labels"].items()

    def test_the_crd_and_the_hook_can_be_left_out(self, helm: Path) -> None:
        kinds = {kind for kind, _ in render(helm, "--set=crds.install=false,uninstallHook.enabled=false")}

        assert not {"CustomResourceDefinition", "Job"} & kinds

    def test_the_crd_is_the_committed_one_and_stays_after_an_uninstall(self, helm: Path) -> None:
        committed = yaml.safe_load((ROOT / "crds" / "backstay.dev_modeldeployments.yaml").read_text())

        rendered = render(helm)["CustomResourceDefinition", committed["metadata"]["name"]]
        assert rendered["spec"] == committed["spec"]
        assert rendered["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
