"""What the chart sets up so that people and other systems are told: dashboard, alerts, notifications."""

import json
import re
from pathlib import Path

import pytest
from backstay_contract.names import RuntimeMetric
from backstay_operator.notify import sinks
from backstay_operator.telemetry import Telemetry

from tests.integration.chart.test_rendering import CHART, environment, operator_pod, refusal, render


class TestDashboard:
    def test_it_is_made_only_where_it_is_asked_for_with_the_labels_that_a_sidecar_looks_for(self, helm: Path) -> None:
        name = ("ConfigMap", "backstay-dashboard")
        made = render(helm, "--set=metrics.dashboard.enabled=true")[name]

        assert name not in render(helm)
        assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(made["data"]["backstay.json"])["title"] == "Backstay"

    def test_it_asks_only_for_metrics_that_there_are(self) -> None:
        text = (CHART / "files" / "dashboards" / "backstay.json").read_text()
        asked = set(re.findall(r"backstay_[a-z_]+", text))
        runtime = {value for name, value in vars(RuntimeMetric).items() if name.isupper()}
        known = {name for one in Telemetry().registry.collect() for name in (one.name, f"{one.name}_total")} | runtime

        assert len(asked) > 10
        assert {name.removesuffix("_bucket") for name in asked} <= known


class TestAlertsAndNotifications:
    SINKS = '--set-json=notifications.sinks=[{"name":"oncall","format":"Slack","secret":{"name":"hook","key":"url"}}]'

    def test_neither_is_there_where_none_is_asked_for(self, helm: Path) -> None:
        objects = render(helm)

        assert ("Service", "backstay-alerts") not in objects
        assert ("ConfigMap", "backstay-notifications") not in objects
        assert (
            not {"BACKSTAY_ALERTS_TOKEN_FILE", "BACKSTAY_NOTIFICATIONS_FILE"}
            & environment(operator_pod(objects)).keys()
        )

    def test_the_alerts_token_comes_from_the_secret_that_is_named(self, helm: Path) -> None:
        objects = render(helm, "--set=alerts.existingSecret=tokens")
        pod = operator_pod(objects)
        (volume,) = (item for item in pod["volumes"] if item["name"] == "alerts")

        assert volume["secret"]["secretName"] == "tokens"
        assert environment(pod)["BACKSTAY_ALERTS_TOKEN_FILE"] == "/etc/backstay/alerts/token"
        assert objects["Service", "backstay-alerts"]["spec"]["ports"][0]["targetPort"] == "health"

    def test_the_operator_reads_the_sinks_as_the_chart_writes_them(self, helm: Path) -> None:
        objects = render(helm, self.SINKS)
        (sink,) = sinks.parse(objects["ConfigMap", "backstay-notifications"]["data"]["sinks.json"])
        (volume,) = (item for item in operator_pod(objects)["volumes"] if item["name"] == "notifications")

        assert (sink.name, str(sink.url_file)) == ("oncall", "/etc/backstay/notifications/urls/oncall")
        secret = volume["projected"]["sources"][1]["secret"]
        assert secret == {"name": "hook", "items": [{"key": "url", "path": "urls/oncall"}]}

    @pytest.mark.parametrize(
        ("option", "field"),
        [
            (
                '--set-json=notifications.sinks=[{"name":"a","format":"Email","secret":{"name":"x","key":"y"}}]',
                "format",
            ),
            ('--set-json=notifications.sinks=[{"name":"a","format":"Slack","url":"https://x"}]', "url"),
            ("--set=alerts.token=secret", "token"),
        ],
    )
    def test_a_secret_in_the_values_or_an_unknown_format_is_refused(self, helm: Path, option: str, field: str) -> None:
        assert field in refusal(helm, option)
