"""Bringing a built image into a cluster's containerd, by the shortest way.

Only what containerd lacks is moved. Layers of some size are not even copied: containerd keeps blobs as files named by
digest, so a hard link puts the layer there, and announcing it ("ingest", with the digest expected) makes containerd
take note of the file. Where linking is impossible the layer is streamed like the small ones. Unpacking remains: 13 s
for torch's 5 GB, once."""

import contextlib
import os
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path

from backstay_cluster.cluster import Cluster
from backstay_cluster.errors import ClusterError
from backstay_cluster.images import layout, store
from backstay_cluster.images.layout import Blob, Layout
from backstay_cluster.shell import run

NAMESPACE = "k8s.io"
"""The containerd namespace that the kubelet's images are in."""
LINKED_FROM = 64 * 1024 * 1024
"""Bytes from which a layer is linked and not streamed."""
_LIMIT_S = 900.0


def load(cluster: Cluster, folder: Path) -> bool:
    """Import the image in that folder of the store. False when containerd has it already,
    under that name and with that digest."""
    image = layout.read(folder, store.default().blobs)
    ctr = [f"{cluster.bin}/ctr", f"--address={cluster.containerd_socket}", f"--namespace={NAMESPACE}"]
    if image.manifest.digest in run([*ctr, "images", "list", f"name=={image.reference}"]):
        return False
    known = frozenset(run([*ctr, "content", "list", "--quiet"]).split())
    linked = _link(image, known, ctr, cluster.containerd_root / "io.containerd.content.v1.content" / "blobs" / "sha256")
    try:
        _stream(image, known | linked, ctr)
    except ClusterError:
        if not known | linked:
            raise
        # containerd may have cleaned up a layer that no image used yet, between our look and the import.
        _stream(image, frozenset(), ctr)
    return True


def to_link(image: Layout, known: Collection[str]) -> list[Blob]:
    """The layers that are worth a link and not in containerd yet."""
    return [blob for blob in image.layers if blob.size >= LINKED_FROM and blob.digest not in known]


def _link(image: Layout, known: Collection[str], ctr: Sequence[str], content: Path) -> frozenset[str]:
    linked = set()
    for blob in to_link(image, known):
        try:
            content.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.link(image.path(blob), content / blob.hex)
        except OSError:
            continue
        _ingest(image, blob, ctr)
        linked.add(blob.digest)
    return frozenset(linked)


def _ingest(image: Layout, blob: Blob, ctr: Sequence[str]) -> None:
    expected = [f"--expected-digest={blob.digest}", f"--expected-size={blob.size}"]
    with image.path(blob).open("rb") as content:
        command = [*ctr, "content", "ingest", *expected, f"backstay-{blob.hex}"]
        done = subprocess.run(command, stdin=content, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")


def _stream(image: Layout, without: Collection[str], ctr: Sequence[str]) -> None:
    command = [*ctr, "images", "import", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdin is not None  # noqa: S101 - for the type checker: both are pipes
        assert process.stdout is not None  # noqa: S101
        with contextlib.suppress(BrokenPipeError), process.stdin as stream:
            layout.write_archive(image, without, stream)
        said = process.stdout.read().decode(errors="replace")
        code = process.wait(timeout=_LIMIT_S)
    if code != 0:
        raise ClusterError(f"import of {image.reference}: exit {code}: {said.strip()[-2000:]}")
