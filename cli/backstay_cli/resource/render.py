"""A ModelDeployment out of a manifest. Pure."""

from typing import Any
from urllib.parse import urlsplit

import yaml
from backstay_contract.location import Location
from backstay_contract.manifest import Manifest, describe
from backstay_contract.names import API_VERSION, KIND, MAX_NAME
from backstay_contract.resource import ModelDeploymentSpec
from pydantic import ValidationError

from backstay_cli.errors import usage


def resource(
    manifest: Manifest,
    digest: str,
    location: Location,
    *,
    name: str,
    namespace: str | None = None,
    replicas: int | None = None,
    endpoint: str,
    region: str | None = None,
    secret: str | None = None,
) -> dict[str, Any]:
    """The resource that asks for a pushed model; fields at their defaults are left to the cluster.

    The manifest's baselines stay in the manifest. Pods read them there, and leave out those that were measured with
    another runtime; a baseline in the spec overrides the manifest's unchecked, and would go on to do so when only the
    version is changed. Raises CliError, naming the field.
    """
    if len(name) > MAX_NAME:
        raise usage(f"--name {name}: has {len(name)} characters, at most {MAX_NAME} are possible")
    if _is_loopback(endpoint):
        raise usage(f"--storage-endpoint: {endpoint} is this machine's own; give the endpoint as pods reach it")
    storage: dict[str, Any] = {"endpoint": endpoint}
    if region is not None:
        storage["region"] = region
    if secret is not None:
        storage["secretRef"] = {"name": secret}
    spec: dict[str, Any] = {
        "model": {
            "name": manifest.name,
            "version": manifest.version,
            "uri": str(location),
            "sha256": digest,
            "storage": storage,
        },
        "hardwareProfile": manifest.hardware_profile.to_json(),
        "replicas": replicas,
    }
    given = {field: value for field, value in spec.items() if value not in (None, {})}
    try:
        ModelDeploymentSpec.model_validate(given)
    except ValidationError as error:
        raise usage(f"spec.{describe(error)}") from None
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": given}


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")  # noqa: S104 - compared, not bound


def to_yaml(document: dict[str, Any]) -> str:
    """A document as YAML, its fields in their order."""
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
