"""ModelDeployments in a cluster, through the user's kubeconfig."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import urllib3
from backstay_contract.names import GROUP, PLURAL, VERSION
from kubernetes import client, config

from backstay_cli.errors import CliError, Exit

Resource = dict[str, Any]
"""A resource, or a part of one, as JSON."""

TIMEOUT_SECONDS = 15


class Cluster:
    """The cluster that a kubeconfig's context names."""

    def __init__(self, context: str | None = None) -> None:
        try:
            api, self.namespace = self._connect(context)
        except (config.ConfigException, OSError) as error:
            raise CliError(f"kubeconfig: {error}; set KUBECONFIG or --context", Exit.UNREACHABLE) from None
        self._objects = client.CustomObjectsApi(api)

    @staticmethod
    def _connect(context: str | None) -> tuple[client.ApiClient, str]:
        # The library's configuration loader has no types.
        loader: Any = config
        contexts, active = loader.list_kube_config_contexts()
        chosen = next((one for one in contexts if one["name"] == context), active) if context else active
        return loader.new_client_from_config(context=context), chosen["context"].get("namespace") or "default"

    def get(self, name: str, namespace: str) -> Resource:
        """One resource as JSON. Raises CliError."""
        with _told_apart(f"ModelDeployment {namespace}/{name}"):
            found = self._objects.get_namespaced_custom_object(
                GROUP, VERSION, namespace, PLURAL, name, _request_timeout=TIMEOUT_SECONDS
            )
            return cast(Resource, found)

    def get_all(self, namespace: str | None) -> list[Resource]:
        """All resources of a namespace, or of all namespaces. Raises CliError."""
        with _told_apart(f"ModelDeployments of {namespace or 'all namespaces'}"):
            if namespace is None:
                found = self._objects.list_cluster_custom_object(
                    GROUP, VERSION, PLURAL, _request_timeout=TIMEOUT_SECONDS
                )
            else:
                found = self._objects.list_namespaced_custom_object(
                    GROUP, VERSION, namespace, PLURAL, _request_timeout=TIMEOUT_SECONDS
                )
            return cast(list[Resource], cast(Resource, found)["items"])

    def patch_spec(self, name: str, namespace: str, patch: Resource, resource_version: str) -> Resource:
        """Merges `patch` into the spec, unless the resource has changed since it was read; the resource afterwards.

        Raises CliError.
        """
        body = {"metadata": {"resourceVersion": resource_version}, "spec": patch}
        with _told_apart(f"ModelDeployment {namespace}/{name}"):
            changed = self._objects.patch_namespaced_custom_object(
                GROUP, VERSION, namespace, PLURAL, name, body, _request_timeout=TIMEOUT_SECONDS
            )
            return cast(Resource, changed)


@contextmanager
def _told_apart(what: str) -> Iterator[None]:
    try:
        yield
    except client.ApiException as error:
        raise failure(what, error.status or 0, error.body or "") from None
    except urllib3.exceptions.HTTPError as error:
        reason = getattr(error, "reason", None) or error
        text = str(reason).partition(">: ")[2] or str(reason)
        raise CliError(f"the cluster cannot be reached: {text}", Exit.UNREACHABLE) from None


def failure(what: str, status: int, body: str) -> CliError:
    """The error for an answer of the API server. Pure."""
    try:
        said = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        said = body.strip()[:200] or f"status {status}"
    if status == 404:
        return CliError(f"{what}: not found ({said}); is the CRD installed?", Exit.NOT_FOUND)
    if status in (401, 403):
        return CliError(f"{what}: {said}", Exit.FORBIDDEN)
    if status == 409:
        return CliError(f"{what}: changed meanwhile; run the command again", Exit.REFUSED)
    if status == 422:
        return CliError(f"{what}: {said}", Exit.REFUSED)
    return CliError(f"{what}: the cluster answered {status}: {said}", Exit.UNREACHABLE)
