"""What a pull is told by its environment. Pure: the environment is an argument."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from backstay_contract import digest as digests
from backstay_contract import location as locations
from backstay_contract import names
from backstay_contract.location import Location
from backstay_contract.manifest import describe
from backstay_contract.names import Env
from backstay_contract.profile import HardwareProfile
from backstay_contract.termination import GaveUp
from pydantic import ValidationError

from backstay_runtime.pull import endpoint as endpoints
from backstay_runtime.pull.endpoint import Endpoint
from backstay_runtime.pull.errors import PullError

ALLOW_LOOPBACK = "BACKSTAY_ALLOW_LOOPBACK_STORAGE"
"""`1` allows a storage endpoint on the loopback interface: for development and tests outside a cluster."""

DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True)
class Settings:
    """Where the model is, which one it must be, and where it goes."""

    location: Location
    digest: str
    """`sha256:<hex>` of manifest.json."""
    endpoint: Endpoint
    region: str
    credentials: Path | None
    """Folder with the files accessKey and secretKey; None: objects are read anonymously."""
    models: Path
    profile: HardwareProfile | None
    allow_loopback: bool = False
    cache_bytes: int | None = None
    """Bytes that all models in the models folder may take together; None: what its disk holds."""

    @property
    def hex_digest(self) -> str:
        return digests.hex_of(self.digest)


def read_settings(env: Mapping[str, str]) -> Settings:
    """The settings in an environment. Raises PullError (SettingsInvalid, EndpointRefused) naming the variable."""
    try:
        digest = digests.normalise(_need(env, Env.MODEL_DIGEST))
    except ValueError as error:
        raise _invalid(Env.MODEL_DIGEST, str(error)) from None
    folder = env.get(Env.STORAGE_CREDENTIALS)
    return Settings(
        location=_location(_need(env, Env.MODEL_URI)),
        digest=digest,
        endpoint=_endpoint(_need(env, Env.STORAGE_ENDPOINT)),
        region=env.get(Env.STORAGE_REGION) or DEFAULT_REGION,
        credentials=Path(folder) if folder else None,
        models=Path(env.get(Env.MODELS_FOLDER) or names.Path.MODELS),
        profile=_profile(env.get(Env.HARDWARE_PROFILE)),
        allow_loopback=env.get(ALLOW_LOOPBACK) == "1",
        cache_bytes=_whole(env, Env.CACHE_BYTES),
    )


def _invalid(variable: str, message: str) -> PullError:
    return PullError(GaveUp.SETTINGS_INVALID, f"{variable}: {message}")


def _need(env: Mapping[str, str], variable: str) -> str:
    value = env.get(variable, "")
    if not value:
        raise _invalid(variable, "is not set; the operator sets it from spec.model")
    return value


def _whole(env: Mapping[str, str], variable: str) -> int | None:
    text = env.get(variable, "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise _invalid(variable, f"{text!r} is no whole number of bytes above 0")
    return int(text)


def _location(uri: str) -> Location:
    try:
        return locations.parse(uri)
    except ValueError as error:
        raise _invalid(Env.MODEL_URI, str(error)) from None


def _endpoint(text: str) -> Endpoint:
    try:
        return endpoints.parse(text)
    except ValueError as error:
        raise PullError(GaveUp.ENDPOINT_REFUSED, f"{Env.STORAGE_ENDPOINT}: {error}") from None


def _profile(text: str | None) -> HardwareProfile | None:
    if not text:
        return None
    try:
        return HardwareProfile.model_validate_json(text)
    except ValidationError as error:
        raise _invalid(Env.HARDWARE_PROFILE, describe(error)) from None
