"""Images on disk: an OCI layout each, whose layers lie uncompressed in one folder that all images share."""

import io
import json
import tarfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from backstay_cluster.errors import ClusterError

_REFERENCE = "org.opencontainers.image.ref.name"
_CONTAINERD_NAME = "io.containerd.image.name"


@dataclass(frozen=True)
class Blob:
    """A file that is named by its content."""

    digest: str
    """sha256:<hex>"""
    size: int
    """Bytes."""

    @property
    def hex(self) -> str:
        """The digest's 64 digits, which are the file's name."""
        return self.digest.removeprefix("sha256:")


@dataclass(frozen=True)
class Layout:
    """One image: its name and the blobs it is made of."""

    reference: str
    """For example localhost/backstay/runtime:0123456789ab"""
    blobs_folder: Path
    manifest: Blob
    media_type: str
    config: Blob
    layers: tuple[Blob, ...]

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """All blobs: the manifest, the configuration, the layers."""
        return (self.manifest, self.config, *self.layers)

    @property
    def size(self) -> int:
        """Bytes of all blobs."""
        return sum(blob.size for blob in self.blobs)

    @property
    def complete(self) -> bool:
        """Whether every blob is there in its full length."""
        return all(_length(self.path(blob)) == blob.size for blob in self.blobs)

    def path(self, blob: Blob) -> Path:
        """Where a blob lies."""
        return self.blobs_folder / blob.hex


def read(folder: Path, blobs_folder: Path) -> Layout:
    """The image that was exported to `folder`; ClusterError when there is none or it is damaged."""
    try:
        (entry,) = json.loads((folder / "index.json").read_text())["manifests"]
        manifest = _blob(entry)
        document = json.loads((blobs_folder / manifest.hex).read_text())
        layers = tuple(_blob(layer) for layer in document["layers"])
        reference = entry["annotations"][_REFERENCE]
        return Layout(reference, blobs_folder, manifest, entry["mediaType"], _blob(document["config"]), layers)
    except (OSError, KeyError, ValueError) as error:
        raise ClusterError(
            f"{folder} holds no whole image ({error}): build it again with `images --rebuild`"
        ) from error


def index(layout: Layout) -> bytes:
    """The index.json by which containerd learns the image's name."""
    entry = {
        "mediaType": layout.media_type,
        "digest": layout.manifest.digest,
        "size": layout.manifest.size,
        "annotations": {_CONTAINERD_NAME: layout.reference},
    }
    return json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()


def write_archive(layout: Layout, without: Collection[str], stream: IO[bytes]) -> None:
    """Write the image as an OCI archive, less the blobs (by digest) that the receiver has. Nothing is copied to
    disk on the way, and the stream need not be seekable."""
    with tarfile.open(fileobj=stream, mode="w|") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        for blob in dict.fromkeys(layout.blobs):
            if blob.digest not in without:
                with layout.path(blob).open("rb") as content:
                    archive.addfile(_entry(f"blobs/sha256/{blob.hex}", blob.size), content)
        _add(archive, "index.json", index(layout))


def _blob(descriptor: dict[str, Any]) -> Blob:
    return Blob(str(descriptor["digest"]), int(descriptor["size"]))


def _length(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_entry(name, len(content)), io.BytesIO(content))
