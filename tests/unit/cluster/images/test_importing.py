import json
import os
from pathlib import Path

import pytest
from backstay_cluster.cluster import Cluster
from backstay_cluster.errors import ClusterError
from backstay_cluster.images import importing, store
from backstay_cluster.images.layout import Layout

from .image_store import REFERENCE, write_image

CTR = """\
#!/usr/bin/env python3
# Just enough of ctr: remembers names and blobs in a folder, as containerd does.
import json, pathlib, sys, tarfile
home = pathlib.Path(__file__).parent / "containerd"
home.mkdir(exist_ok=True)
words = [word for word in sys.argv[1:] if not word.startswith("--")]
flags = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
with (home / "calls").open("a") as calls:
    calls.write(" ".join(words[:2]) + "\\n")
if words[:2] == ["images", "list"]:
    wanted = words[2].removeprefix("name==")
    named = json.loads((home / "names").read_text()) if (home / "names").exists() else {}
    print("REF DIGEST", *(f"{wanted} {named[wanted]}" for _ in [0] if wanted in named), sep="\\n")
elif words[:2] == ["content", "list"]:
    print(*(f"sha256:{file.name}" for file in home.glob("blobs/*")), sep="\\n")
elif words[:2] == ["content", "ingest"]:
    (home / "blobs").mkdir(exist_ok=True)
    if not (home / "forgetful").exists():
        (home / "blobs" / flags["expected-digest"].removeprefix("sha256:")).touch()
elif words[:2] == ["images", "import"]:
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
        content = {entry.name: archive.extractfile(entry).read() for entry in archive}
    (home / "blobs").mkdir(exist_ok=True)
    for name in content:
        if name.startswith("blobs/"):
            (home / "blobs" / name.split("/")[-1]).touch()
    (entry,) = json.loads(content["index.json"])["manifests"]
    (home / "sent").write_text(json.dumps(sorted(content)))
    missing = [blob for blob in json.loads((home / "needed").read_text()) if not (home / "blobs" / blob).exists()]
    if missing:
        sys.exit(f"content {missing[0]}: not found")
    (home / "names").write_text(json.dumps({entry["annotations"]["io.containerd.image.name"]: entry["digest"]}))
"""


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paper: Cluster) -> Layout:
    """An image with a big and a small layer; where 10 bytes are big."""
    monkeypatch.setenv("BACKSTAY_CACHE", str(tmp_path))
    monkeypatch.setattr(importing, "LINKED_FROM", 10)
    paper.bin.mkdir(parents=True)
    (paper.bin / "ctr").write_text(CTR)
    (paper.bin / "ctr").chmod(0o755)
    written = write_image(tmp_path / "images", b"a big layer, in its way", b"small")
    containerd(paper).mkdir()
    (containerd(paper) / "needed").write_text(json.dumps([blob.hex for blob in written.blobs]))
    return written


def containerd(cluster: Cluster) -> Path:
    return cluster.bin / "containerd"


def folder() -> Path:
    return store.default().root / "thing-0123456789ab"


def content(cluster: Cluster) -> Path:
    return cluster.containerd_root / "io.containerd.content.v1.content" / "blobs" / "sha256"


def sent(cluster: Cluster) -> list[str]:
    names: list[str] = json.loads((containerd(cluster) / "sent").read_text())
    return names


def test_a_big_layer_is_linked_and_only_small_ones_are_streamed(paper: Cluster, image: Layout) -> None:
    assert importing.load(paper, folder())
    big, small = image.layers
    assert (content(paper) / big.hex).samefile(image.path(big))
    assert f"blobs/sha256/{big.hex}" not in sent(paper)
    assert f"blobs/sha256/{small.hex}" in sent(paper)
    assert json.loads((containerd(paper) / "names").read_text()) == {REFERENCE: image.manifest.digest}


def test_an_image_that_is_there_is_not_imported_again(paper: Cluster, image: Layout) -> None:
    assert importing.load(paper, folder())
    (containerd(paper) / "calls").unlink()
    assert not importing.load(paper, folder())
    assert (containerd(paper) / "calls").read_text().splitlines() == ["images list"]


def test_an_image_of_that_name_with_another_content_is_imported(paper: Cluster, image: Layout) -> None:
    (containerd(paper) / "names").write_text(json.dumps({REFERENCE: "sha256:" + "0" * 64}))
    assert importing.load(paper, folder())


def test_layers_that_containerd_has_are_not_sent(paper: Cluster, image: Layout) -> None:
    (containerd(paper) / "blobs").mkdir()
    for layer in image.layers:
        (containerd(paper) / "blobs" / layer.hex).touch()
    assert importing.load(paper, folder())
    assert not [name for name in sent(paper) if name.endswith(tuple(layer.hex for layer in image.layers))]
    assert not content(paper).exists()


def test_where_linking_is_impossible_everything_is_streamed(
    paper: Cluster, image: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another_disk(source: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", another_disk)
    assert importing.load(paper, folder())
    assert {f"blobs/sha256/{blob.hex}" for blob in image.blobs} <= set(sent(paper))


def test_a_layer_that_containerd_dropped_meanwhile_is_sent_after_all(paper: Cluster, image: Layout) -> None:
    (containerd(paper) / "forgetful").touch()
    assert importing.load(paper, folder())
    assert f"blobs/sha256/{image.layers[0].hex}" in sent(paper)


def test_a_failing_import_says_what_containerd_said(paper: Cluster, image: Layout) -> None:
    (containerd(paper) / "needed").write_text(json.dumps(["0" * 64]))
    with pytest.raises(ClusterError, match=f"{REFERENCE}.*content 0000.*not found"):
        importing.load(paper, folder())
