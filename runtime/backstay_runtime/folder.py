"""A model's folder: what its manifest says, and that its files are those."""

import hashlib
from pathlib import Path

from backstay_contract import digest as digests
from backstay_contract import manifest as manifests
from backstay_contract.manifest import Architecture, Manifest, ModelFile
from backstay_contract.names import MANIFEST_FILE
from backstay_contract.termination import GaveUp, Termination


class GiveUpError(Exception):
    """The process cannot serve; the termination says why."""

    def __init__(self, reason: GaveUp, message: str, **more: str) -> None:
        super().__init__(message)
        self.termination = Termination(reason=reason, message=message, **more)


def open_model(folder: Path, digest: str | None) -> tuple[Manifest, str]:
    """The folder's manifest and its digest, after every file's size and SHA-256 have been compared.

    `digest`: the one that the manifest must have; None takes the folder as it is, and describes it itself when it
    has no manifest. Raises GiveUpError naming the file, what was expected and what was found.
    """
    path = folder / MANIFEST_FILE
    if digest is None and not path.exists():
        return _described(folder)
    try:
        data = path.read_bytes()
    except OSError as why:
        raise GiveUpError(GaveUp.MODEL_NOT_FOUND, f"{path} cannot be read: {why.strerror}", path=MANIFEST_FILE) from why
    found = manifests.digest_of(data)
    if digest is not None and found != digest:
        raise GiveUpError(
            GaveUp.DIGEST_MISMATCH,
            f"{MANIFEST_FILE} has digest {found}, and {digest} was asked for",
            path=MANIFEST_FILE,
            expected=digest,
            actual=found,
        )
    try:
        manifest = manifests.parse(data)
    except manifests.ManifestError as why:
        raise GiveUpError(GaveUp.MANIFEST_INVALID, str(why), path=MANIFEST_FILE) from why
    for file in manifest.files:
        _verify(folder, file)
    return manifest, found


def _verify(folder: Path, file: ModelFile) -> None:
    path = folder / file.path
    try:
        size = path.stat().st_size
        if size != file.size:
            raise GiveUpError(
                GaveUp.DIGEST_MISMATCH,
                f"{file.path} has {size} bytes, and its manifest says {file.size}",
                path=file.path,
                expected=str(file.size),
                actual=str(size),
            )
        found = _sha256(path)
    except OSError as why:
        raise GiveUpError(
            GaveUp.MODEL_NOT_FOUND, f"{file.path} cannot be read: {why.strerror}", path=file.path
        ) from why
    if found != file.sha256:
        raise GiveUpError(
            GaveUp.DIGEST_MISMATCH,
            f"{file.path} has SHA-256 {found}, and its manifest says {file.sha256}",
            path=file.path,
            expected=file.sha256,
            actual=found,
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return digests.PREFIX + hashlib.file_digest(file, "sha256").hexdigest()


def _described(folder: Path) -> tuple[Manifest, str]:
    """A manifest of whatever lies in the folder, for a model that was not pushed yet."""
    if not folder.is_dir():
        raise GiveUpError(GaveUp.MODEL_NOT_FOUND, f"{folder} is no folder: give the folder of a model")
    files = tuple(
        ModelFile(path=path.relative_to(folder).as_posix(), size=path.stat().st_size, sha256=_sha256(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )
    if not files:
        raise GiveUpError(GaveUp.MODEL_NOT_FOUND, f"{folder} is empty: give the folder of a model")
    name = folder.resolve().name.lower()
    manifest = Manifest(name=name, version="0", files=files, architecture=Architecture(family="llama"))
    return manifest, manifests.digest_of(manifests.dump(manifest))
