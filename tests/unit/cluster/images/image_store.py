"""Small images on disk, in the form in which the store keeps them."""

import hashlib
import json
from pathlib import Path
from typing import Any

from backstay_cluster.images import layout
from backstay_cluster.images.layout import Layout

REFERENCE = "localhost/backstay/thing:0123456789ab"


def write_image(root: Path, *layers: bytes, reference: str = REFERENCE, folder: str = "thing-0123456789ab") -> Layout:
    """An image of these layers in `root`/`folder`, its blobs in `root`/blobs/sha256."""
    blobs = root / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def blob(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    manifest = blob(json.dumps({"config": blob(b"{}"), "layers": [blob(layer) for layer in layers]}).encode())
    entry = {
        **manifest,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "annotations": {"org.opencontainers.image.ref.name": reference},
    }
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    return layout.read(root / folder, blobs)
