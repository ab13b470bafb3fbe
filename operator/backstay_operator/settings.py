"""The operator's settings, read once from its environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from backstay_operator.alerts.webhook import LEAST_TOKEN
from backstay_operator.desired.companions import DEFAULT_CHOICE, Choice
from backstay_operator.notify import sinks
from backstay_operator.notify.sinks import Sink


class SettingsError(Exception):
    """A setting is missing or wrong; the message names the variable, its value and the remedy."""


@dataclass(frozen=True)
class Settings:
    """How this operator was installed."""

    runtime_image: str
    """Image of revisions whose spec names none."""
    control_key: bytes
    """Secret from which the pods' control tokens are derived."""
    prometheus_url: str | None = None
    """Base URL; None: evidence comes from the pods themselves."""
    namespaces: tuple[str, ...] = ()
    """Watched namespaces; empty: the whole cluster."""
    log_format: str = "json"
    health_port: int = 8080
    metrics_port: int = 9100
    node_cache: bool = False
    """Whether pods may keep models in a folder of their node (storage.cache.kind Node)."""
    capacity_check: bool = True
    """Whether room on the nodes is reckoned before a candidate is made. A cluster that adds nodes for pods that wait
    must see such pods first."""
    workers: int = 8
    """Resources that are worked on at the same time."""
    resync_seconds: float = 300.0
    """Everything is listed again after about this time, in case a watch missed something."""
    instance: str = "backstay-operator"
    """Name of this process in events: the pod's."""
    pod_uid: str = ""
    """The pod's uid; empty outside of a pod."""
    lease_namespace: str = "default"
    """Where the Lease is that says which of several operators acts: the pod's namespace."""
    lease_name: str = "backstay-operator"
    """Operators that watch the same namespaces must share it."""
    lease_seconds: float = 15.0
    """Another operator takes over so long after the last sign of life."""

    alerts_token_file: Path | None = None
    """Holds the token of POST /alerts; None: there is no such endpoint."""
    sinks: tuple[Sink, ...] = ()
    """Who is notified."""
    companions: Choice = DEFAULT_CHOICE
    """What is made beside each resource's pods."""

    def __repr__(self) -> str:
        return f"Settings(runtime_image={self.runtime_image!r}, namespaces={self.namespaces!r})"


def read(env: Mapping[str, str]) -> Settings:
    """The settings in the environment. Raises SettingsError."""
    return Settings(
        runtime_image=_required(env, "BACKSTAY_RUNTIME_IMAGE", "set it to the image that serving pods run"),
        control_key=_key(env),
        prometheus_url=_url(env, "BACKSTAY_PROMETHEUS_URL"),
        namespaces=tuple(sorted({n.strip() for n in env.get("BACKSTAY_WATCH_NAMESPACES", "").split(",")} - {""})),
        log_format=_choice(env, "BACKSTAY_LOG_FORMAT", ("json", "text")),
        health_port=_number(env, "BACKSTAY_HEALTH_PORT", Settings.health_port, 65535),
        metrics_port=_number(env, "BACKSTAY_METRICS_PORT", Settings.metrics_port, 65535),
        node_cache=_choice(env, "BACKSTAY_NODE_CACHE", ("false", "true")) == "true",
        capacity_check=_choice(env, "BACKSTAY_CAPACITY_CHECK", ("true", "false")) == "true",
        workers=_number(env, "BACKSTAY_WORKERS", Settings.workers, 256),
        resync_seconds=float(_number(env, "BACKSTAY_RESYNC_SECONDS", int(Settings.resync_seconds), 3600)),
        companions=_companions(env),
        alerts_token_file=_token_file(env),
        sinks=_sinks(env),
        instance=env.get("POD_NAME") or env.get("HOSTNAME") or Settings.instance,
        pod_uid=env.get("POD_UID", ""),
        lease_namespace=env.get("POD_NAMESPACE") or Settings.lease_namespace,
        lease_name=env.get("BACKSTAY_LEASE_NAME") or Settings.lease_name,
        lease_seconds=float(_number(env, "BACKSTAY_LEASE_SECONDS", int(Settings.lease_seconds), 3600, lowest=3)),
    )


def _required(env: Mapping[str, str], name: str, remedy: str) -> str:
    value = env.get(name, "").strip()
    if not value:
        raise SettingsError(f"{name}: is not set; {remedy}")
    return value


def _key(env: Mapping[str, str]) -> bytes:
    name = "BACKSTAY_CONTROL_KEY_FILE"
    path = Path(_required(env, name, "set it to a file with at least 16 random bytes"))
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"{name}: {path} cannot be read ({error.strerror}); mount the control key there") from error
    if len(key) < 16:
        raise SettingsError(f"{name}: {path} holds {len(key)} bytes; write at least 16 random bytes into it")
    return key


def _url(env: Mapping[str, str], name: str) -> str | None:
    value = env.get(name, "").strip().rstrip("/")
    if value and not value.startswith(("http://", "https://")):
        raise SettingsError(f"{name}: {value!r} is no http URL; write for example http://prometheus.monitoring:9090")
    return value or None


def _companions(env: Mapping[str, str]) -> Choice:
    name = "BACKSTAY_COMPANIONS"
    try:
        return Choice.model_validate_json(env.get(name) or "{}")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the text"
        raise SettingsError(f"{name}: {field}: {first['msg']}; the chart makes it from its value `models`") from error


def _token_file(env: Mapping[str, str]) -> Path | None:
    name = "BACKSTAY_ALERTS_TOKEN_FILE"
    path = env.get(name, "")
    if not path:
        return None
    try:
        size = len(Path(path).read_bytes().strip())
    except OSError as error:
        raise SettingsError(f"{name}: {path} cannot be read ({error.strerror}); mount the token there") from error
    if size < LEAST_TOKEN:
        raise SettingsError(f"{name}: {path} holds {size} bytes; write at least {LEAST_TOKEN} into it")
    return Path(path)


def _sinks(env: Mapping[str, str]) -> tuple[Sink, ...]:
    name = "BACKSTAY_NOTIFICATIONS_FILE"
    path = env.get(name, "")
    if not path:
        return ()
    try:
        return sinks.parse(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{name}: {path} cannot be read ({error.strerror}); mount the sinks there") from error
    except ValueError as error:
        raise SettingsError(
            f"{name}: {path}: {error}; the chart's value `notifications` says what it may be"
        ) from error


def _choice(env: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = env.get(name, "") or choices[0]
    if value not in choices:
        raise SettingsError(f"{name}: {value!r} is not one of {', '.join(choices)}")
    return value


def _number(env: Mapping[str, str], name: str, default: int, highest: int, lowest: int = 1) -> int:
    text = env.get(name, "") or str(default)
    if not text.isascii() or not text.isdigit() or not lowest <= int(text) <= highest:
        raise SettingsError(f"{name}: {text!r} is not a whole number from {lowest} to {highest}")
    return int(text)
