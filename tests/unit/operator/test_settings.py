from pathlib import Path

import pytest
from backstay_operator.settings import Settings, SettingsError, read


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    key = tmp_path / "key"
    key.write_bytes(b"0123456789abcdef0123\n")
    return {"BACKSTAY_RUNTIME_IMAGE": "runtime:1", "BACKSTAY_CONTROL_KEY_FILE": str(key)}


def test_the_least_that_is_needed_gives_every_default(env: dict[str, str]) -> None:
    settings = read(env)
    assert settings == Settings(runtime_image="runtime:1", control_key=b"0123456789abcdef0123")
    assert (settings.health_port, settings.metrics_port, settings.namespaces) == (8080, 9100, ())


def test_everything_can_be_set(env: dict[str, str]) -> None:
    settings = read(
        env
        | {
            "BACKSTAY_PROMETHEUS_URL": "http://prometheus.monitoring:9090/",
            "BACKSTAY_WATCH_NAMESPACES": "b, a,,",
            "BACKSTAY_LOG_FORMAT": "text",
            "BACKSTAY_HEALTH_PORT": "1",
            "BACKSTAY_METRICS_PORT": "2",
            "BACKSTAY_CAPACITY_CHECK": "false",
            "BACKSTAY_WORKERS": "3",
            "BACKSTAY_RESYNC_SECONDS": "4",
            "BACKSTAY_COMPANIONS": '{"podMonitor": {"interval": "9s"}, "disruptionBudget": null}',
            "BACKSTAY_LEASE_NAME": "one",
            "BACKSTAY_LEASE_SECONDS": "6",
            "POD_NAME": "backstay-0",
            "POD_NAMESPACE": "ops",
            "POD_UID": "u",
        }
    )
    assert settings.prometheus_url == "http://prometheus.monitoring:9090"
    assert settings.namespaces == ("a", "b")
    assert (settings.log_format, settings.health_port, settings.metrics_port) == ("text", 1, 2)
    assert (settings.workers, settings.resync_seconds, settings.instance) == (3, 4.0, "backstay-0")
    assert (settings.lease_namespace, settings.lease_name, settings.lease_seconds) == ("ops", "one", 6.0)
    assert settings.pod_uid == "u"
    assert not settings.capacity_check
    assert settings.companions.disruption_budget is None
    assert settings.companions.pod_monitor is not None
    assert settings.companions.pod_monitor.interval == "9s"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("BACKSTAY_RUNTIME_IMAGE", "", "BACKSTAY_RUNTIME_IMAGE: is not set"),
        ("BACKSTAY_CONTROL_KEY_FILE", "", "BACKSTAY_CONTROL_KEY_FILE: is not set"),
        ("BACKSTAY_CONTROL_KEY_FILE", "/nowhere/key", "/nowhere/key cannot be read"),
        ("BACKSTAY_PROMETHEUS_URL", "prometheus:9090", "'prometheus:9090' is no http URL"),
        ("BACKSTAY_LOG_FORMAT", "xml", "'xml' is not one of json, text"),
        ("BACKSTAY_CAPACITY_CHECK", "off", "'off' is not one of true, false"),
        ("BACKSTAY_ALERTS_TOKEN_FILE", "/nowhere/token", "/nowhere/token cannot be read"),
        ("BACKSTAY_NOTIFICATIONS_FILE", "/nowhere/sinks", "/nowhere/sinks cannot be read"),
        ("BACKSTAY_LEASE_SECONDS", "2", "'2' is not a whole number from 3 to 3600"),
        ("BACKSTAY_WORKERS", "0", "'0' is not a whole number from 1 to 256"),
        ("BACKSTAY_WORKERS", "many", "'many' is not a whole number"),
        ("BACKSTAY_METRICS_PORT", "70000", "'70000' is not a whole number from 1 to 65535"),
        ("BACKSTAY_COMPANIONS", "{", "the text: Invalid JSON"),
        ("BACKSTAY_COMPANIONS", '{"podMonitor": {"interval": "0s"}}', "podMonitor.interval: String should match"),
        ("BACKSTAY_COMPANIONS", '{"ingress": {}}', "ingress: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value_and_remedy(
    env: dict[str, str], name: str, value: str, said: str
) -> None:
    with pytest.raises(SettingsError) as error:
        read(env | {name: value})
    assert str(error.value).startswith(name)
    assert said in str(error.value)


def test_a_short_key_is_refused(env: dict[str, str]) -> None:
    Path(env["BACKSTAY_CONTROL_KEY_FILE"]).write_text("short")
    with pytest.raises(SettingsError, match="holds 5 bytes"):
        read(env)


def test_sinks_and_the_alerts_token_are_read_from_their_files(env: dict[str, str], tmp_path: Path) -> None:
    sinks, token = tmp_path / "sinks.json", tmp_path / "token"
    sinks.write_text('{"sinks": [{"name": "a", "format": "Slack", "urlFile": "/x"}]}')
    token.write_text("t" * 16)
    settings = read(env | {"BACKSTAY_NOTIFICATIONS_FILE": str(sinks), "BACKSTAY_ALERTS_TOKEN_FILE": str(token)})
    assert [sink.name for sink in settings.sinks] == ["a"]
    assert settings.alerts_token_file == token
    sinks.write_text('{"sinks": [{"name": "a", "format": "Email", "urlFile": "/x"}]}')
    with pytest.raises(SettingsError, match=r"sinks\.0\.format.*value `notifications`"):
        read(env | {"BACKSTAY_NOTIFICATIONS_FILE": str(sinks)})
    token.write_text("short")
    with pytest.raises(SettingsError, match="holds 5 bytes"):
        read(env | {"BACKSTAY_ALERTS_TOKEN_FILE": str(token)})


def test_the_key_is_in_no_representation(env: dict[str, str]) -> None:
    assert "0123456789abcdef" not in repr(read(env))
