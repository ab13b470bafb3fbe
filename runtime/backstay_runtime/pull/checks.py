"""What must be true before a weight byte is asked for. Pure."""

from pathlib import Path

from backstay_contract import manifest as manifests
from backstay_contract.manifest import MAX_BYTES, Manifest, ManifestError
from backstay_contract.names import MANIFEST_FILE
from backstay_contract.profile import NO_GPU, HardwareProfile
from backstay_contract.termination import GaveUp

from backstay_runtime.pull.errors import PullError

RESERVE_BYTES = 16 * 1024 * 1024
"""Left free beside the model, for folders, the journal and the neighbours on the volume."""


def check_manifest(data: bytes, digest: str) -> Manifest:
    """The manifest in manifest.json's bytes, if they are the digest's. Raises PullError."""
    if len(data) > MAX_BYTES:
        raise PullError(
            GaveUp.MANIFEST_INVALID,
            f"{MANIFEST_FILE} has more than the {MAX_BYTES} bytes that are read; push the model with backstay push",
            path=MANIFEST_FILE,
        )
    actual = manifests.digest_of(data)
    if actual != digest:
        raise PullError(
            GaveUp.DIGEST_MISMATCH,
            f"{MANIFEST_FILE}: digest is {actual}, the resource asks for {digest}; "
            "correct spec.model.sha256 or spec.model.uri",
            path=MANIFEST_FILE,
            expected=digest,
            actual=actual,
        )
    try:
        return manifests.parse(data)
    except ManifestError as error:
        raise PullError(GaveUp.MANIFEST_INVALID, str(error), path=MANIFEST_FILE) from None


def no_room(folder: Path, need: int, free: int, held: int) -> PullError:
    """The models volume cannot take `need` more bytes. `held`: bytes of other models there that are in use."""
    beside = f", {held} bytes are held by models in use" if held else ""
    return PullError(
        GaveUp.INSUFFICIENT_STORAGE,
        f"{folder}: need={need} free={free} bytes{beside}; give the models volume (storage.cache.size) more room",
        expected=str(need),
        actual=str(free),
    )


def check_profile(asked: HardwareProfile | None, qualified: HardwareProfile) -> None:
    """Raises PullError (HardwareMismatch) unless the resource asks for the hardware that the model was qualified on.

    GPU and count must be the same; memory, driver and CUDA only where the resource speaks of them. Whether the pod
    has that hardware is for the server to find out, beside the device.
    """
    if asked is None:
        return
    said = []
    if asked.gpu.replace(" ", "-") != qualified.gpu.replace(" ", "-"):
        said.append(f"gpu: asked for {asked.gpu}, qualified on {qualified.gpu}")
    elif asked.gpu != NO_GPU and asked.count != qualified.count:
        said.append(f"count: asked for {asked.count}, qualified on {qualified.count}")
    if asked.min_memory_gi_b and asked.min_memory_gi_b < qualified.min_memory_gi_b:
        said.append(f"minMemoryGiB: asked for {asked.min_memory_gi_b}, qualified on {qualified.min_memory_gi_b}")
    for field, want, have in (("driver", asked.driver, qualified.driver), ("cuda", asked.cuda, qualified.cuda)):
        if want is not None and want != have:
            said.append(f"{field}: asked for {want}, qualified on {have or 'any'}")
    if said:
        raise PullError(GaveUp.HARDWARE_MISMATCH, f"spec.hardwareProfile is not the manifest's: {'; '.join(said)}")
