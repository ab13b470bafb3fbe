"""A tiny model in folders that a server is started on."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from backstay_contract import digest as digests
from backstay_contract import manifest as manifests
from backstay_contract.manifest import Architecture, Manifest, ModelFile
from backstay_contract.names import MANIFEST_FILE

from tests.unit.runtime import tiny

from .processes import Server, running

LONG = {**tiny.CONFIG, "max_position_embeddings": 8192}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose context is long enough for answers that take seconds."""
    return tiny.write(tmp_path_factory.mktemp("models") / "tiny", config=LONG)


@pytest.fixture(scope="session")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that the tests leave as it is."""
    with running(tmp_path_factory.mktemp("server"), "--model", str(folder)) as one:
        one.wait_until_ready()
        yield one


def publish(folder: Path, models: Path) -> tuple[Path, str]:
    """A copy with its manifest, in the place that its digest names; the copy and the digest."""
    files = tuple(
        ModelFile(path=path.name, size=path.stat().st_size, sha256=digests.of_bytes(path.read_bytes()))
        for path in sorted(folder.iterdir())
    )
    data = manifests.dump(
        Manifest(name="tiny", version="1.2.0", files=files, architecture=Architecture(family="llama"))
    )
    digest = manifests.digest_of(data)
    copy = models / digests.hex_of(digest)
    shutil.copytree(folder, copy)
    (copy / MANIFEST_FILE).write_bytes(data)
    return copy, digest
