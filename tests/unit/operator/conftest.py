"""An API server in memory, for the shell's parts that cannot be split into pure ones."""

import copy
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from backstay_contract import names
from backstay_operator import kinds
from backstay_operator.client import PATCH_NOT_APPLICABLE, ApiError
from backstay_operator.kinds import Kind

Json = dict[str, Any]


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def pointed(body: Json, path: str) -> tuple[Json, str]:
    """The object that a JSON pointer's last part stands in, and that part."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in path.strip("/").split("/")]
    for part in parts[:-1]:
        body = body[part]
    return body, parts[-1]


@dataclass
class FakeApi:
    """Objects by kind, namespace and name; every write is recorded."""

    objects: dict[tuple[Kind, str, str], Json] = field(default_factory=dict)
    writes: list[tuple[str, str, str]] = field(default_factory=list)
    """(verb, kind, name)"""
    fail: Callable[[str, Kind, str], ApiError | None] = lambda *_: None
    logs: dict[tuple[str, str, bool], str] = field(default_factory=dict)
    others: dict[str, set[str]] = field(default_factory=dict)
    """Fields of a subresource that another manager owns: applying leaves them."""
    version: int = 0
    selected: dict[Kind, str] = field(default_factory=dict)
    """The field selector of the last list in pages; the fake itself selects nothing."""
    unserved: set[Kind] = field(default_factory=set)

    async def serves(self, kind: Kind) -> bool:
        return kind not in self.unserved

    def put(self, kind: Kind, body: Json) -> Json:
        metadata = body["metadata"]
        self.version += 1
        metadata.setdefault("uid", f"uid-{kind.plural}-{metadata['name']}")
        metadata["resourceVersion"] = str(self.version)
        self.objects[kind, metadata["namespace"], metadata["name"]] = body
        return copy.deepcopy(body)

    def _check(self, verb: str, kind: Kind, name: str) -> None:
        error = self.fail(verb, kind, name)
        if error is not None:
            raise error
        if verb not in ("get", "list"):
            self.writes.append((verb, kind.name, name))

    def _stored(self, kind: Kind, namespace: str, name: str) -> Json:
        try:
            return self.objects[kind, namespace, name]
        except KeyError:
            raise ApiError(404, "NotFound", f"{name} not found", "fake") from None

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        self._check("get", kind, name)
        return copy.deepcopy(self.objects.get((kind, namespace, name)))

    async def list_all(self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None = None) -> list[Json]:
        self._check("list", kind, "")
        wanted = (labels or {}).items()
        return [
            copy.deepcopy(body)
            for (of, where, _), body in self.objects.items()
            if of == kind and namespace in (None, where) and wanted <= (body["metadata"].get("labels") or {}).items()
        ]

    async def listed(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str], size: int = 250
    ) -> AsyncIterator[tuple[list[Json], int]]:
        yield await self.list_all(kind, namespace, labels), 0

    async def pages(self, kind: Kind, fields: str = "", size: int = 1) -> AsyncIterator[list[Json]]:
        self._check("list", kind, "")
        self.selected[kind] = fields
        for body in [body for (of, _, _), body in self.objects.items() if of == kind]:
            yield [copy.deepcopy(body)]

    async def create(self, kind: Kind, body: Json) -> Json:
        name = body["metadata"]["name"]
        self._check("create", kind, name)
        if (kind, body["metadata"]["namespace"], name) in self.objects:
            raise ApiError(409, "AlreadyExists", f"{name} already exists", "fake")
        return self.put(kind, copy.deepcopy(body))

    async def apply(self, kind: Kind, body: Json, subresource: str = "") -> Json:
        self._check(f"apply-{subresource}" if subresource else "apply", kind, body["metadata"]["name"])
        if not subresource:
            return self.put(kind, copy.deepcopy(body))
        stored = copy.deepcopy(self._stored(kind, body["metadata"]["namespace"], body["metadata"]["name"]))
        if body["metadata"].get("resourceVersion", "") != stored["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified", "fake")
        others = {key: stored.get(subresource, {}).get(key) for key in self.others.get(subresource, ())}
        stored[subresource] = others | copy.deepcopy(body[subresource])
        return self.put(kind, stored)

    async def json_patch(
        self, kind: Kind, namespace: str, name: str, operations: list[Json], subresource: str = ""
    ) -> Json:
        self._check(f"patch-{subresource}" if subresource else "patch", kind, name)
        body = copy.deepcopy(self._stored(kind, namespace, name))
        for operation in operations:
            target, key = pointed(body, operation["path"])
            if operation["op"] == "test":
                if target.get(key) != operation["value"]:
                    raise ApiError(422, "Invalid", f"the server {PATCH_NOT_APPLICABLE}", "fake")
                continue
            assert operation["path"].startswith(f"/{subresource}")
            assert operation["op"] == "add" or key in target, operation
            if operation["op"] == "remove":
                del target[key]
            else:
                target[key] = copy.deepcopy(operation["value"])
        return self.put(kind, body)

    async def merge_patch(self, kind: Kind, namespace: str, name: str, body: Json) -> Json:
        self._check("patch", kind, name)
        stored = self._stored(kind, namespace, name)
        for field_name in ("resourceVersion", "uid"):
            given = body.get("metadata", {}).get(field_name)
            if given is not None and given != stored["metadata"][field_name]:
                raise ApiError(409, "Conflict", f"{field_name} is another", "fake")
        assert "status" not in body, "the status is a subresource"
        return self.put(kind, merge(copy.deepcopy(stored), copy.deepcopy(body)))

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> bool:
        self._check("delete", kind, name)
        stored = self.objects.get((kind, namespace, name))
        if stored is None:
            return False
        if stored["metadata"]["uid"] != uid:
            raise ApiError(409, "Conflict", "another uid", "fake")
        del self.objects[kind, namespace, name]
        return True

    async def log_tail(
        self, namespace: str, pod: str, container: str, *, lines: int, limit_bytes: int, previous: bool
    ) -> str:
        try:
            return self.logs[pod, container, previous]
        except KeyError:
            raise ApiError(400, "BadRequest", "previous terminated container not found", "fake") from None


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


DIGEST = "sha256:" + "ab" * 32


@dataclass
class FakeHttp:
    """Answers by (method, the URL matched by a pattern); every request is recorded."""

    answers: list[tuple[str, str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)

    def answer(self, method: str, pattern: str, answer: Any) -> None:
        """`answer`: an Answer, an exception, or a function of the body that gives one of them (or a coroutine)."""
        self.answers.insert(0, (method, pattern, answer))

    async def ask(self, method: str, url: str, **given: Any) -> Any:
        self.requests.append((method, url, given))
        for of, pattern, answer in self.answers:
            if of == method and re.search(pattern, url):
                said = answer(given) if callable(answer) else answer
                if hasattr(said, "__await__"):
                    said = await said
                if isinstance(said, Exception):
                    raise said
                return said
        from backstay_operator.http import HttpError

        raise HttpError("ConnectError")


@pytest.fixture
def http() -> FakeHttp:
    return FakeHttp()


def resource_body(**metadata: Any) -> Json:
    model = {
        "name": "m",
        "version": "1.0.0",
        "uri": "s3://models/m/1",
        "sha256": DIGEST,
        "storage": {"endpoint": "http://minio.minio.svc:9000"},
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "chat", "namespace": "prod", "uid": "uid-1", "generation": 1, **metadata},
        "spec": {"model": model},
    }


def roomy_node(name: str = "n1") -> Json:
    """A node that has room for every candidate of these tests."""
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}, "conditions": [ready]}
    return {"metadata": {"name": name, "namespace": ""}, "status": status}


@pytest.fixture
def stored(api: FakeApi) -> Json:
    """A resource that was just applied."""
    return api.put(kinds.MODEL_DEPLOYMENT, resource_body())
