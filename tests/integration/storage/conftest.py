"""One MinIO for all tests of a run; each test has a bucket of its own."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import proxy as proxies
from . import server as servers
from .processes import Backstay, Pod
from .proxy import Proxy
from .server import Server


@pytest.fixture(scope="session")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real MinIO. Where it is not built the tests are skipped, but never in CI."""
    minio = servers.program()
    if minio is None:
        why = "MinIO is not built: run `uv run python -m backstay_cluster build --only minio`"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    data = tmp_path_factory.mktemp("minio") / "data"
    data.mkdir()
    with servers.running(minio, data) as server:
        yield server


@pytest.fixture
def bucket(storage: Server) -> str:
    """A fresh bucket."""
    name = f"models-{uuid.uuid4().hex[:10]}"
    storage.client().make_bucket(name)
    return name


@pytest.fixture
def proxy(storage: Server) -> Iterator[Proxy]:
    """A proxy before MinIO, which fails as the test says."""
    with proxies.running(storage.port) as proxy:
        yield proxy


@pytest.fixture
def backstay(storage: Server) -> Backstay:
    """The command line as a process."""
    return Backstay(storage)


@pytest.fixture
def pod(storage: Server, bucket: str, tmp_path: Path) -> Pod:
    """What an init container has: folders, a Secret and an environment."""
    return Pod.make(storage, tmp_path / "pod", f"s3://{bucket}/m/1")
