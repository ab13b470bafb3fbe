"""The alerts in a real Prometheus that scrapes the runtime's own metrics.

Its windows of minutes are cut to seconds; everything else of the expressions is as users get it.
"""

import http.server
import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from backstay_cluster.images import monitoring
from backstay_cluster.progress import Progress
from backstay_contract.metric import MetricName
from backstay_contract.status import Condition, ModelDeploymentStatus, Phase
from backstay_operator.desired import alerts
from backstay_operator.desired.common import Owner
from backstay_operator.queue import Key
from backstay_operator.telemetry import Telemetry
from backstay_runtime.identity import Identity
from backstay_runtime.telemetry.metrics import Metrics
from prometheus_client import exposition

ROOT = Path(__file__).parents[3]
OWNER = Owner("prod", "chat", "uid-1")
DIGEST = "sha256:" + "ab" * 32
POD = "chat-blue-5f7d8c9b4d-x2x7k"
LIMITS = {MetricName.P99_LATENCY: 840.0}
CONDITIONS = tuple(
    Condition.model_validate(
        {"type": type_, "status": status, "reason": "Breach", "lastTransitionTime": "2026-01-01T12:00:00Z",
         "observedGeneration": 1}
    )
    for type_, status in (("Degraded", "True"), ("Ready", "False"), ("MetricsAvailable", "False"), ("Stalled", "True"))
)  # fmt: skip
SECONDS = "3s"
LIMIT_BYTES = 4e9
Json = dict[str, Any]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Target:
    """Answers scrapes with whatever its text is now."""

    def __init__(self, text: Callable[[], bytes]) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", exposition.CONTENT_TYPE_PLAIN_0_0_4)
                self.end_headers()
                self.wfile.write(text())

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Prometheus:
    """A real one, that watches a serving pod, what the cluster says of it, and the operator."""

    def __init__(self, folder: Path) -> None:
        self.pod = Metrics(Identity("chat", "1.0.0", DIGEST), LIMITS, "1")
        self.operator = Telemetry()
        self.used_bytes = 1e9
        self.targets = {
            "pod": Target(self.pod.exposition),
            "cluster": Target(self._cluster),
            "operator": Target(lambda: exposition.generate_latest(self.operator.registry)),
        }
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        config = folder / "prometheus.yml"
        config.write_text(json.dumps(self._config(folder)))
        self.process = subprocess.Popen(
            [str(monitoring.ensure(Progress())), f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error"],
        )  # fmt: skip

    def _cluster(self) -> bytes:
        """As cAdvisor and kube-state-metrics say it."""
        of = f'namespace="prod",pod="{POD}",container="serve"'
        return (
            f"container_memory_working_set_bytes{{{of}}} {self.used_bytes}\n"
            f'kube_pod_container_resource_limits{{{of},resource="memory"}} {LIMIT_BYTES}\n'
        ).encode()

    def _config(self, folder: Path) -> Json:
        rules = folder / "rules.yml"
        body = alerts.rule(OWNER, LIMITS, alerts.Settings())["spec"]
        rules.write_text(yaml.safe_dump(body))
        of_pod = {"namespace": "prod", "pod": POD}
        jobs = [
            {"job_name": name, "honor_labels": True,
             "static_configs": [{"targets": [target.address], "labels": of_pod if name == "pod" else {}}]}
            for name, target in self.targets.items()
        ]  # fmt: skip
        return {
            "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": jobs,
        }

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)
        for target in self.targets.values():
            target.stop()

    def ask(self, path: str, **query: str) -> Any:
        answer = httpx2.get(f"{self.url}/api/v1/{path}", params=query, timeout=5)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def firing(self, expression: str) -> list[dict[str, str]]:
        """The labels of what the expression finds."""
        return [one["metric"] for one in self.ask("query", query=expression)["result"]]


def eventually(what: Callable[[], Any], seconds: float = 20) -> Any:
    until = time.monotonic() + seconds
    while True:
        try:
            if found := what():
                return found
        except httpx2.HTTPError:
            pass  # it has not started yet
        assert time.monotonic() < until, "did not come in time"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    one = Prometheus(tmp_path_factory.mktemp("prometheus"))
    try:
        eventually(lambda: httpx2.get(f"{one.url}/-/ready").status_code == 200)
        eventually(lambda: len(one.firing("up == 1")) == len(one.targets))
        yield one
    finally:
        one.stop()


def expression(name: str) -> str:
    """An alert's expression, its windows cut to seconds."""
    (group,) = alerts.rule(OWNER, LIMITS, alerts.Settings())["spec"]["groups"]
    found = next(one["expr"] for one in group["rules"] if one["alert"] == name)
    return re.sub(r"\[\d+m\]", f"[{SECONDS}]", found)


def of_the_chart() -> dict[str, str]:
    """The expressions of the operator's own alerts."""
    page = (ROOT / "charts" / "backstay" / "templates" / "monitoring.yaml").read_text()
    return {
        name: text.replace('\\"', '"')
        for name, text in re.findall(r'"name" "(\w+)".*?"expr" "(.*?[^\\])"\)', page, re.S)
    }


def test_prometheus_loads_the_rules_and_evaluates_each_without_an_error(prometheus: Prometheus) -> None:
    def evaluated() -> Any:
        (group,) = prometheus.ask("rules")["groups"]
        return group["rules"] if all(one["health"] != "unknown" for one in group["rules"]) else None

    assert {one["health"] for one in eventually(evaluated)} == {"ok"}


def test_a_slow_model_is_told_only_with_enough_requests(prometheus: Prometheus) -> None:
    slow = expression("BackstayModelSlow")
    assert "> 0.84 " in slow
    of = prometheus.pod.request_seconds
    for _ in range(50):
        of.observe(2.0)
    time.sleep(1)
    assert prometheus.firing(slow) == []  # fifty are too few
    for _ in range(3000):
        of.observe(2.0)
    (labels,) = eventually(lambda: prometheus.firing(slow))
    assert labels == {"digest": DIGEST}
    eventually(lambda: not prometheus.firing(slow))  # nobody asks any more
    asked = f"sum(increase(backstay_request_duration_seconds_count[{SECONDS}])) > 3000"

    def quiet_though_many_ask() -> bool:
        for _ in range(1000):
            of.observe(0.5)
        return bool(prometheus.firing(asked)) and not prometheus.firing(slow)

    eventually(quiet_though_many_ask)


def test_a_pod_near_its_memory_limit_is_told_with_the_models_digest(prometheus: Prometheus) -> None:
    memory = expression("BackstayModelMemoryHigh")
    eventually(lambda: prometheus.firing("container_memory_working_set_bytes"))
    assert prometheus.firing(memory) == []
    prometheus.used_bytes = 0.95 * LIMIT_BYTES
    (labels,) = eventually(lambda: prometheus.firing(memory))
    assert labels == {"namespace": "prod", "pod": POD, "digest": DIGEST}


def test_a_full_cache_is_told(prometheus: Prometheus) -> None:
    cache = expression("BackstayModelCacheFull")
    prometheus.pod.kv_total.set(100)
    prometheus.pod.kv_used.set(50)
    time.sleep(1)
    assert prometheus.firing(cache) == []
    prometheus.pod.kv_used.set(95)
    (labels,) = eventually(lambda: prometheus.firing(cache))
    assert labels["digest"] == DIGEST


def test_a_queue_that_grows_is_told_and_one_that_is_only_long_is_not(prometheus: Prometheus) -> None:
    queue = expression("BackstayModelQueueGrowing")
    prometheus.pod.waiting.set(40)
    eventually(lambda: not prometheus.firing(queue))
    for waiting in range(41, 60):
        prometheus.pod.waiting.set(waiting)
        time.sleep(0.1)
    assert prometheus.firing(queue) == [{"digest": DIGEST}]


def test_the_operators_own_alerts_name_the_resource(prometheus: Prometheus) -> None:
    found = of_the_chart()
    assert len(found) == 5
    label = 'label_replace({}, "modeldeployment", "$1", "name", "(.*)")'
    told = {name: label.format(text) for name, text in found.items()}
    held = ModelDeploymentStatus(phase=Phase.HELD, conditions=CONDITIONS)
    prometheus.operator.show(Key("prod", "chat"), held, held)
    about = {"namespace": "prod", "name": "chat", "modeldeployment": "chat"}
    for name in ("BackstayNeedsAPerson", "BackstayDegraded", "BackstayNotReady", "BackstayMetricsUnavailable"):
        assert eventually(lambda name=name: prometheus.firing(told[name])) == [about]  # type: ignore[misc]
    assert prometheus.firing(told["BackstayRolledBack"]) == []
    serving = held.with_(phase=Phase.SERVING)
    prometheus.operator.show(Key("prod", "chat"), held, serving)
    assert eventually(lambda: prometheus.firing(told["BackstayRolledBack"])) == [about]
    prometheus.operator.forget(Key("prod", "chat"))
    for text in told.values():
        eventually(lambda text=text: not prometheus.firing(text))  # type: ignore[misc]
