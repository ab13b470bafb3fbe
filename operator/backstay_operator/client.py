"""A small client of the Kubernetes API that speaks plain JSON objects.

A pass that writes has read everything from the API server itself, never from a watch's cache (see `store` for passes at
rest), so it decides on the present state.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
from backstay_contract import names
from kubernetes.aio import client as generated
from kubernetes.aio import config

from backstay_operator.kinds import Kind

Json = dict[str, Any]
OnWrite = Callable[[str, Kind], None]
Leave = Callable[[], float]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_NOT_APPLICABLE = "rejected our request due to an error in our request"
"""What the API server says of a JSON patch whose test fails or whose path is not there; it does not say which."""
TIMEOUT_SECONDS = 10.0
"""For one call as a whole: a hanging API server must not hold a pass for longer."""
MOST_CONNECTIONS = 2000
"""Each watch holds one, and there are some for each watched namespace: calls must not wait for theirs."""
WATCH_SECONDS = 300
"""The API server ends a watch then; the next one may reach another server."""
SILENT_SECONDS = 90.0
"""A watch that tells nothing for so long is dead: the API server sends a bookmark every minute."""


class ApiError(Exception):
    """A call that the API server refused or did not answer.

    `status` is the HTTP status, 0 where there was no answer; `reason` the API's own word, such as `NotFound`.
    """

    def __init__(self, status: int, reason: str, message: str, call: str) -> None:
        super().__init__(f"{call}: {status or 'no answer'} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def not_found(self) -> bool:
        return self.status == 404

    @property
    def forbidden(self) -> bool:
        return self.status == 403

    @property
    def conflict(self) -> bool:
        """The object is not as the caller expected: another version, a failed JSON patch test, or it exists already."""
        return self.status == 409 or (self.status == 422 and PATCH_NOT_APPLICABLE in self.message)


class Client:
    """Calls of the Kubernetes API. Every call has a timeout; every refusal is an ApiError.

    `on_write` is told the verb and kind of each write that is sent. `leave` gives the seconds within which a write
    must have ended; where it gives 0, writes are refused here.
    """

    def __init__(self, configuration: Any, on_write: OnWrite | None = None, leave: Leave | None = None) -> None:
        self._api = generated.ApiClient(configuration)
        self._api.user_agent = names.FIELD_MANAGER
        self._on_write = on_write
        self._leave = leave

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._api.close()  # type: ignore[no-untyped-call]

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """The object, or None if there is none."""
        try:
            return await self._json("GET", kind.path(namespace, name))
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def list_all(self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None = None) -> list[Json]:
        """All objects of a namespace (None: of the cluster) with the labels."""
        query = {"labelSelector": _selector(labels)} if labels else {}
        items: list[Json] = (await self._json("GET", kind.path(namespace), query=query)).get("items") or []
        # The items of a list carry neither.
        return [{"apiVersion": kind.api_version, "kind": kind.name, **item} for item in items]

    async def listed(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str], size: int = 250
    ) -> AsyncIterator[tuple[list[Json], int]]:
        """The same some at a time, each time with the version that the whole list is of."""
        query = {"limit": str(size)}
        if labels:
            query["labelSelector"] = _selector(labels)
        while True:
            found = await self._json("GET", kind.path(namespace), query=query)
            metadata = found.get("metadata") or {}
            yield found.get("items") or [], int(metadata.get("resourceVersion") or 0)
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    async def pages(self, kind: Kind, fields: str = "", size: int = 500) -> AsyncIterator[list[Json]]:
        """All objects of the cluster that the field selector names, some at a time: never all of them in memory."""
        query = {"limit": str(size)} | ({"fieldSelector": fields} if fields else {})
        while True:
            found = await self._json("GET", kind.path(None), query=query)
            yield found.get("items") or []
            more = (found.get("metadata") or {}).get("continue")
            if not more:
                return
            query["continue"] = more

    async def watch(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str], since: int
    ) -> AsyncIterator[tuple[str, Json]]:
        """What changes after a version: the kind of change and the object, until the API server ends it after some
        minutes. Of a BOOKMARK only the version counts. ApiError with status 410: that version is too long ago."""
        path, call = kind.path(namespace), f"WATCH {kind.path(namespace)}"
        query = {
            "watch": "true",
            "resourceVersion": str(since),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
            "labelSelector": _selector(labels),
        }
        timeout = aiohttp.ClientTimeout(total=None, connect=TIMEOUT_SECONDS, sock_read=SILENT_SECONDS)
        with _answered(call, f"nothing was told for {SILENT_SECONDS:g} s"):
            response = await self._send("GET", path, query=query, within=timeout)
            try:
                if response.status >= 400:
                    raise _refusal(response.status, str(response.reason), await response.read(), call)
                async for line in _lines(response.response.content):
                    yield _event(line, call)
            finally:
                response.response.close()

    async def create(self, kind: Kind, body: Json) -> Json:
        return await self._write("POST", "create", kind, kind.path(body["metadata"]["namespace"]), body=body)

    async def apply(self, kind: Kind, body: Json, subresource: str = "") -> Json:
        """Server-side apply, under the operator's field manager, taking over fields from others."""
        path = kind.path(body["metadata"]["namespace"], body["metadata"]["name"], subresource)
        query = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
        verb = f"apply-{subresource}" if subresource else "apply"
        return await self._write("PATCH", verb, kind, path, body=body, query=query, content_type=APPLY_PATCH)

    async def json_patch(
        self, kind: Kind, namespace: str, name: str, operations: list[Json], subresource: str = ""
    ) -> Json:
        """A JSON patch; `conflict` is true of the error if one of its tests failed."""
        query = {"fieldManager": names.FIELD_MANAGER}
        path = kind.path(namespace, name, subresource)
        verb = f"patch-{subresource}" if subresource else "patch"
        return await self._write("PATCH", verb, kind, path, body=operations, query=query, content_type=JSON_PATCH)

    async def merge_patch(self, kind: Kind, namespace: str, name: str, body: Json) -> Json:
        """A merge patch. A resourceVersion or uid in its metadata must be the object's own."""
        query = {"fieldManager": names.FIELD_MANAGER}
        path = kind.path(namespace, name)
        return await self._write("PATCH", "patch", kind, path, body=body, query=query, content_type=MERGE_PATCH)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> bool:
        """Begins the deletion of that very object, dependents in the background; False if it was gone already."""
        body = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        try:
            await self._write("DELETE", "delete", kind, kind.path(namespace, name), body=body)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return True

    async def log_tail(
        self, namespace: str, pod: str, container: str, *, lines: int, limit_bytes: int, previous: bool
    ) -> str:
        """The last lines of a container's log."""
        query = {
            "container": container, "tailLines": str(lines), "previous": str(previous).lower(),
            # The server cuts from the end, so ask for more than is wanted and keep the last part.
            "limitBytes": str(16 * limit_bytes),
        }  # fmt: skip
        data = await self._call("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query=query)
        return data[-limit_bytes:].decode(errors="ignore")

    async def serves(self, kind: Kind) -> bool:
        """Whether the API server knows the kind."""
        try:
            found = await self._json("GET", kind.root)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return any(resource.get("name") == kind.plural for resource in found.get("resources") or ())

    async def _write(
        self,
        method: str,
        verb: str,
        kind: Kind,
        path: str,
        *,
        body: Json | list[Json],
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        within = self._leave() if self._leave else TIMEOUT_SECONDS
        if within <= 0:
            raise ApiError(0, "NotLeading", "another operator may lead by now", f"{method} {path}")
        if self._on_write:
            self._on_write(verb, kind)
        return await self._json(method, path, body=body, query=query, content_type=content_type, within=within)

    async def _json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | list[Json] | None = None,
        content_type: str = "application/json",
        within: float = TIMEOUT_SECONDS,
    ) -> Json:
        data = await self._call(method, path, query=query, body=body, content_type=content_type, within=within)
        try:
            value = json.loads(data)
        except ValueError as error:
            raise ApiError(0, "NotJson", f"the answer is not JSON: {error}", f"{method} {path}") from error
        if not isinstance(value, dict):
            raise ApiError(0, "NotAnObject", "the answer is not a JSON object", f"{method} {path}")
        return value

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | list[Json] | None = None,
        content_type: str = "application/json",
        within: float = TIMEOUT_SECONDS,
    ) -> bytes:
        call, seconds = f"{method} {path}", min(within, TIMEOUT_SECONDS)
        timeout = aiohttp.ClientTimeout(total=seconds)
        with _answered(call, f"no answer within {seconds:.3g} s"):
            async with asyncio.timeout(seconds):
                response = await self._send(
                    method, path, query=query, body=body, content_type=content_type, within=timeout
                )
                answer: bytes = await response.read()
        if response.status >= 400:
            raise _refusal(response.status, str(response.reason), answer, call)
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | list[Json] | None = None,
        content_type: str = "application/json",
        within: aiohttp.ClientTimeout,
    ) -> Any:
        """The library's answer, whose body is not read yet."""
        verb, url, headers, data, _ = await self._api.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Content-Type": content_type, "Accept": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )
        return await self._api.call_api(verb, url, headers, data, _request_timeout=within)


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{k}={v}" for k, v in labels.items())


@contextlib.contextmanager
def _answered(call: str, too_late: str) -> Iterator[None]:
    """What comes of a call that is not answered becomes an ApiError; `too_late`: what a timeout means."""
    try:
        yield
    except TimeoutError as error:
        raise ApiError(0, "Timeout", too_late, call) from error
    except (aiohttp.ClientError, OSError) as error:
        raise ApiError(0, "Unreachable", f"{type(error).__name__}: {error}", call) from error


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The lines of an answer; aiohttp's own reader refuses long ones."""
    rest = b""
    async for part in content.iter_any():
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line


def _event(line: bytes, call: str) -> tuple[str, Json]:
    try:
        event = json.loads(line)
        told, body = event["type"], event["object"]
        if told != "ERROR":
            int(body["metadata"]["resourceVersion"])
            if told != "BOOKMARK":
                body["metadata"]["namespace"], body["metadata"]["name"]
            return told, body
        raise ApiError(int(body.get("code") or 0), body.get("reason") or "", body.get("message") or "", call)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ApiError(0, "NotAnEvent", f"{type(error).__name__}: {error}", call) from error


def _refusal(status: int, reason: str, data: bytes, call: str) -> ApiError:
    try:
        said = json.loads(data)
        return ApiError(status, said.get("reason") or reason, said.get("message") or "", call)
    except (ValueError, AttributeError):
        return ApiError(status, reason, data[:300].decode(errors="replace"), call)


async def connect(on_write: OnWrite | None = None, leave: Leave | None = None) -> Client:
    """A client with the pod's service account, or with the user's kubeconfig outside a cluster.

    Raises kubernetes.aio.config.ConfigException where there is neither.
    """
    configuration = generated.Configuration()
    if "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        await config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    configuration.retries = 0
    configuration.connection_pool_maxsize = MOST_CONNECTIONS
    return Client(configuration, on_write, leave)
