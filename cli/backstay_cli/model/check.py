"""Whether a model's bytes are those of its manifest: in a folder, or in the storage."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from backstay_contract import digest as digests
from backstay_contract import manifest as manifests
from backstay_contract.manifest import Manifest, ManifestError, ModelFile
from backstay_contract.names import MANIFEST_FILE

from backstay_cli.errors import CliError, Exit, refused
from backstay_cli.model.files import listing
from backstay_cli.model.hashing import Advance, hash_file
from backstay_cli.storage.store import Store

PARALLEL = 4


class Finding(NamedTuple):
    """A file that is not as the manifest says."""

    path: str
    problem: str
    expected: str | None = None
    actual: str | None = None


class Source(NamedTuple):
    """Where a model is: its manifest, and a way to look at one of its files."""

    manifest: Manifest
    digest: str
    check: Callable[[ModelFile, Advance], Finding | None]
    extra: tuple[str, ...] = ()
    """Files beside the manifest's."""


def in_folder(folder: Path) -> Source:
    """A model in a folder that has its manifest.json. Raises CliError."""
    try:
        data = (folder / MANIFEST_FILE).read_bytes()
    except OSError as error:
        raise CliError(
            f"{folder / MANIFEST_FILE}: {error.strerror}; verify a pulled model, or s3://BUCKET/PREFIX", Exit.NOT_FOUND
        ) from None
    manifest = _parsed(data)

    def check(file: ModelFile, advance: Advance) -> Finding | None:
        if not (folder / file.path).is_file():
            return Finding(file.path, "is missing")
        found = hash_file(folder, file.path, advance)
        return compare(file, found.size, found.sha256)

    present = listing(folder)
    extra = {*present.kept, *present.left_out} - {MANIFEST_FILE} - {file.path for file in manifest.files}
    return Source(manifest, manifests.digest_of(data), check, tuple(sorted(extra)))


def in_storage(store: Store, *, quick: bool = False, read: bool = False) -> Source:
    """A model in the storage.

    What the storage itself compared when it took the object is not read again, unless `read` asks for it. `quick` takes
    what the writer recorded for proof, and reads nothing.
    """
    data = store.read(MANIFEST_FILE, manifests.MAX_BYTES)
    if data is None:
        raise CliError(
            f"{store.location}/{MANIFEST_FILE} does not exist: no model was pushed there, or its push was cut off",
            Exit.NOT_FOUND,
        )

    def check(file: ModelFile, advance: Advance) -> Finding | None:
        stored = store.stat(file.path)
        if stored is None:
            return Finding(file.path, "is missing")
        if stored.size != file.size:
            return compare(file, stored.size, "")
        if stored.checked is not None and not read:
            advance(file.size)
            return compare(file, stored.size, digests.PREFIX + stored.checked)
        if quick:
            advance(file.size)
            return compare(file, stored.size, digests.PREFIX + stored.sha256 if stored.sha256 else "not recorded")
        return compare(file, *_hashed(store.chunks(file.path), advance))

    return Source(_parsed(data), manifests.digest_of(data), check)


def _hashed(chunks: Iterator[bytes], advance: Advance) -> tuple[int, str]:
    hashed, size = hashlib.sha256(), 0
    for data in chunks:
        hashed.update(data)
        size += len(data)
        advance(len(data))
    return size, digests.PREFIX + hashed.hexdigest()


def _parsed(data: bytes) -> Manifest:
    try:
        return manifests.parse(data)
    except ManifestError as error:
        raise refused(str(error)) from None


def compare(file: ModelFile, size: int, sha256: str) -> Finding | None:
    """What differs between a manifest's file and the one that was found. Pure."""
    if size != file.size:
        return Finding(file.path, "has another size", f"{file.size} bytes", f"{size} bytes")
    if sha256 != file.sha256:
        return Finding(file.path, "has another SHA-256", file.sha256, sha256)
    return None


def check(source: Source, pinned: str | None, advance: Advance) -> list[Finding]:
    """Everything that differs from the manifest, and the manifest itself if it is not the pinned one."""
    found = [Finding(path, "is not listed in the manifest") for path in source.extra]
    if pinned is not None and source.digest != pinned:
        found.append(Finding(MANIFEST_FILE, "is not the pinned one", pinned, source.digest))
    with ThreadPoolExecutor(PARALLEL, "verify") as pool:
        checked = pool.map(lambda file: source.check(file, advance), source.manifest.files)
        return found + [one for one in checked if one is not None]
