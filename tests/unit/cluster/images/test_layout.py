import io
import json
import tarfile
from pathlib import Path

import pytest
from backstay_cluster.errors import ClusterError
from backstay_cluster.images import layout
from backstay_cluster.images.layout import Layout

from .image_store import REFERENCE, write_image


def members(image: Layout, without: set[str]) -> dict[str, bytes]:
    stream = io.BytesIO()
    layout.write_archive(image, without, stream)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def test_an_image_is_read_as_it_was_exported(tmp_path: Path) -> None:
    image = write_image(tmp_path, b"one", b"another")
    assert image.reference == REFERENCE
    assert [blob.size for blob in image.layers] == [3, 7]
    assert image.complete


def test_an_image_that_lacks_a_layer_is_not_whole(tmp_path: Path) -> None:
    image = write_image(tmp_path, b"one", b"another")
    image.path(image.layers[1]).unlink()
    assert not image.complete


def test_an_image_with_a_truncated_layer_is_not_whole(tmp_path: Path) -> None:
    image = write_image(tmp_path, b"one")
    image.path(image.layers[0]).write_bytes(b"on")
    assert not image.complete


@pytest.mark.parametrize(
    "content", ["", "{}", '{"manifests": []}', '{"manifests": [{"digest": "sha256:0", "size": 1}]}']
)
def test_a_damaged_index_is_an_error_with_a_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(ClusterError, match="--rebuild"):
        layout.read(tmp_path, tmp_path)


def test_an_archive_holds_every_blob_under_its_digest(tmp_path: Path) -> None:
    image = write_image(tmp_path, b"one", b"another")
    found = members(image, set())
    assert {f"blobs/sha256/{blob.hex}" for blob in image.blobs} == set(found) - {"oci-layout", "index.json"}
    assert found[f"blobs/sha256/{image.layers[1].hex}"] == b"another"


def test_an_archive_leaves_out_what_the_receiver_has(tmp_path: Path) -> None:
    image = write_image(tmp_path, b"one", b"another")
    found = members(image, {image.layers[0].digest})
    assert f"blobs/sha256/{image.layers[0].hex}" not in found
    assert f"blobs/sha256/{image.layers[1].hex}" in found


def test_a_layer_that_an_image_has_twice_is_sent_once(tmp_path: Path) -> None:
    image = write_image(tmp_path, b"same", b"same")
    stream = io.BytesIO()
    layout.write_archive(image, set(), stream)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        names = archive.getnames()
    assert len(names) == len(set(names))


def test_the_archive_tells_containerd_the_images_name(tmp_path: Path) -> None:
    image = write_image(tmp_path, b"one")
    (entry,) = json.loads(members(image, set())["index.json"])["manifests"]
    assert entry["annotations"] == {"io.containerd.image.name": REFERENCE}
    assert entry["digest"] == image.manifest.digest
