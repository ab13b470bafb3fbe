import io
import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from backstay_contract.evidence import MetricVerdict, VerdictKind
from backstay_contract.metric import MetricName
from backstay_contract.status import Attempt, Colour, Condition, Degraded, ModelDeploymentStatus, Phase, Side
from backstay_operator import kinds, logs
from backstay_operator.queue import Key
from backstay_operator.telemetry import Telemetry, reference

KEY = Key("prod", "chat")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def attempt(**changes: Any) -> Attempt:
    return Attempt(
        id="r-1",
        revision="r",
        digest="ab" * 32,
        version="1",
        colour=Colour.GREEN,
        image="i",
        started_at=NOON,
        **changes,
    )


def verdict(kind: VerdictKind, **numbers: Any) -> MetricVerdict:
    return MetricVerdict(metric=MetricName.P99_LATENCY, verdict=kind, reason="Beyond", message="m", at=NOON, **numbers)


def value(telemetry: Telemetry, series: str, /, **labels: str) -> float | None:
    return telemetry.registry.get_sample_value(series, labels)


def test_a_resource_has_one_phase_at_a_time() -> None:
    telemetry = Telemetry()
    telemetry.show(KEY, ModelDeploymentStatus(), ModelDeploymentStatus(phase=Phase.STARTING))
    telemetry.show(KEY, ModelDeploymentStatus(), ModelDeploymentStatus(phase=Phase.SERVING, ready_replicas=2))
    shown = {
        phase: value(telemetry, "backstay_phase", namespace="prod", name="chat", phase=phase.value) for phase in Phase
    }
    assert [phase for phase, one in shown.items() if one] == [Phase.SERVING]
    assert value(telemetry, "backstay_ready_replicas", namespace="prod", name="chat") == 2


def test_a_condition_that_is_false_is_told_from_one_that_is_not_there() -> None:
    telemetry = Telemetry()
    false = Condition(
        type="MetricsAvailable", status="False", reason="NoData", last_transition_time=NOON, observed_generation=1
    )
    telemetry.show(KEY, ModelDeploymentStatus(), ModelDeploymentStatus(conditions=(false,)))
    shown = {
        name: value(telemetry, "backstay_condition", namespace="prod", name="chat", condition=name)
        for name in ("MetricsAvailable", "Stalled")
    }
    assert shown == {"MetricsAvailable": 0, "Stalled": -1}
    telemetry.show(KEY, ModelDeploymentStatus(), ModelDeploymentStatus(conditions=(false.with_(status="True"),)))
    assert value(telemetry, "backstay_condition", namespace="prod", name="chat", condition="MetricsAvailable") == 1


@pytest.mark.case("R84")
def test_a_verdict_is_shown_with_its_numbers() -> None:
    telemetry = Telemetry()
    breach = verdict(VerdictKind.BREACH, estimate=0.4, limit=200.0, n=50, e_value=3.5)
    telemetry.show(KEY, ModelDeploymentStatus(), ModelDeploymentStatus(verdicts=(breach,)))
    at = {"namespace": "prod", "name": "chat", "metric": "p99LatencyMs"}
    shown = {
        name: value(telemetry, f"backstay_metric_{name}", **at) for name in ("value", "limit", "samples", "evalue")
    }
    assert shown == {"value": 0.4, "limit": 200, "samples": 50, "evalue": 3.5}
    assert value(telemetry, "backstay_metric_verdict", **at, verdict="Breach") == 1
    assert value(telemetry, "backstay_metric_verdict", **at, verdict="Pass") == 0


def test_an_attempt_is_counted_once_when_it_ends() -> None:
    telemetry = Telemetry()
    opened = ModelDeploymentStatus(attempt=attempt())
    ended = ModelDeploymentStatus(attempt=attempt(ended_at=NOON, outcome="Breach"))
    telemetry.show(KEY, ModelDeploymentStatus(), opened)
    assert value(telemetry, "backstay_attempts_total", outcome="Breach") is None
    telemetry.show(KEY, opened, ended)
    telemetry.show(KEY, ended, ended)
    assert value(telemetry, "backstay_attempts_total", outcome="Breach") == 1


def test_a_resource_that_is_gone_has_no_series_and_the_others_keep_theirs() -> None:
    telemetry = Telemetry()
    other = Key("prod", "other")
    for key in (KEY, other):
        telemetry.show(key, ModelDeploymentStatus(), ModelDeploymentStatus(phase=Phase.SERVING))
    telemetry.forget(KEY)
    telemetry.forget(KEY)
    assert value(telemetry, "backstay_phase", namespace="prod", name="chat", phase="Serving") is None
    assert value(telemetry, "backstay_phase", namespace="prod", name="other", phase="Serving") == 1


def test_numbers_of_an_earlier_attempt_do_not_outlive_its_verdicts() -> None:
    telemetry = Telemetry()
    at = {"namespace": "prod", "name": "chat", "metric": "p99LatencyMs"}
    breach = ModelDeploymentStatus(verdicts=(verdict(VerdictKind.BREACH, estimate=0.4, limit=200.0, n=50),))
    unknown = ModelDeploymentStatus(verdicts=(verdict(VerdictKind.NO_DATA, limit=200.0),))
    telemetry.show(KEY, ModelDeploymentStatus(), breach)
    telemetry.show(KEY, breach, unknown)
    assert value(telemetry, "backstay_metric_value", **at) is None
    assert value(telemetry, "backstay_metric_limit", **at) == 200
    telemetry.show(KEY, unknown, ModelDeploymentStatus())
    assert value(telemetry, "backstay_metric_limit", **at) is None
    assert value(telemetry, "backstay_metric_verdict", **at, verdict="Breach") is None
    assert value(telemetry, "backstay_phase", namespace="prod", name="chat", phase="Pending") == 1


def test_alerts_and_notifications_are_counted_by_what_became_of_them() -> None:
    telemetry = Telemetry()
    telemetry.alerted("accepted", 2)
    telemetry.notified("oncall", "sent")
    assert value(telemetry, "backstay_alerts_total", outcome="accepted") == 2
    assert value(telemetry, "backstay_notifications_total", sink="oncall", outcome="sent") == 1


def test_the_reference_page_names_every_metric_with_its_labels() -> None:
    page = reference()
    assert "| `backstay_metric_verdict` | gauge | `namespace`, `name`, `metric`, `verdict` | 1 for" in page
    for family in Telemetry().registry.collect():
        assert f"`{family.name}" in page


def test_writes_are_counted_by_verb_and_kind() -> None:
    telemetry = Telemetry()
    telemetry.wrote("patch-status", kinds.MODEL_DEPLOYMENT)
    name = "backstay_operator_api_writes_total"
    assert value(telemetry, name, verb="patch-status", kind="ModelDeployment") == 1


def line(form: str, **extra: Any) -> str:
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.configure(form, stream)
        logging.getLogger("backstay_operator.x").info("%s serves", "1.0.0", extra=extra)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    return stream.getvalue()


def test_a_log_line_is_one_json_object_with_the_resource_and_the_attempt() -> None:
    body = json.loads(line("json", resource="prod/chat", attempt="r-1", phase=None))
    assert {name: body[name] for name in ("level", "message", "resource", "attempt")} == {
        "level": "info",
        "message": "1.0.0 serves",
        "resource": "prod/chat",
        "attempt": "r-1",
    }
    assert "phase" not in body


def test_a_text_line_is_for_people() -> None:
    assert line("text", resource="prod/chat").endswith("INFO    1.0.0 serves  [prod/chat]\n")
    assert line("text").endswith("INFO    1.0.0 serves\n")


def test_a_trace_is_part_of_its_json_line() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        record = logging.LogRecord("n", logging.ERROR, "f", 1, "failed", None, sys.exc_info())
    body = json.loads(logs.JsonFormatter().format(record))
    assert "ValueError: broken" in body["trace"]
    assert "\n" not in logs.JsonFormatter().format(record)


@pytest.mark.parametrize(("revision", "shown"), [("r", 1), ("another", 0)])
def test_degraded_mode_is_shown_while_it_is_the_active_revisions(revision: str, shown: int) -> None:
    telemetry = Telemetry()
    active = Side(colour=Colour.BLUE, version="1", digest="ab" * 32, revision=revision)
    degraded = Degraded(revision="r", reason="Breach", since=NOON)
    telemetry.show(KEY, ModelDeploymentStatus(), ModelDeploymentStatus(active=active, degraded=degraded))
    assert value(telemetry, "backstay_degraded", namespace="prod", name="chat") == shown
    telemetry.forget(KEY)
    assert value(telemetry, "backstay_degraded", namespace="prod", name="chat") is None
