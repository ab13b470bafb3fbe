"""Whether a model that lies in the models folder already is the one that is asked for.

There is no marker of an earlier check: it would outlive a lost write, a flipped bit on the disk and a hand in the
folder. The bytes are hashed again; that reads them into the page cache, from where the server loads them.
"""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from backstay_contract import manifest as manifests
from backstay_contract.manifest import Manifest, ModelFile
from backstay_contract.names import MANIFEST_FILE

from backstay_runtime.pull.checks import check_manifest
from backstay_runtime.pull.hashing import sha256_of


def problem(folder: Path, digest: str, threads: int = 2) -> str | None:
    """What is wrong with an installed model, or None if all its bytes are the digest's.

    Raises PullError (ManifestInvalid) for the right bytes of a manifest that this version cannot read.
    """
    try:
        data = (folder / MANIFEST_FILE).read_bytes()
    except OSError as error:
        return f"{MANIFEST_FILE}: {error.strerror}"
    if manifests.digest_of(data) != digest:
        return f"{MANIFEST_FILE}: digest is {manifests.digest_of(data)}"
    manifest = check_manifest(data, digest)
    extra = _present(folder) - {MANIFEST_FILE} - {file.path for file in manifest.files}
    if extra:
        return f"{min(extra)}: is not listed in the manifest"
    with ThreadPoolExecutor(threads, "verify") as pool:
        found = pool.map(lambda file: _file_problem(folder, file), manifest.files)
        return next((said for said in found if said is not None), None)


def manifest_of(folder: Path) -> Manifest:
    """The manifest of a model that has no problem."""
    return manifests.parse((folder / MANIFEST_FILE).read_bytes())


def _present(folder: Path) -> set[str]:
    return {(Path(root) / name).relative_to(folder).as_posix() for root, _, names in os.walk(folder) for name in names}


def _file_problem(folder: Path, file: ModelFile) -> str | None:
    path = folder / file.path
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            return f"{file.path}: is no plain file"
        if found.st_size != file.size:
            return f"{file.path}: has {found.st_size} bytes, not {file.size}"
        actual = sha256_of(path, file.size)
    except OSError as error:
        return f"{file.path}: {error.strerror}"
    return None if actual == file.sha256 else f"{file.path}: SHA-256 is {actual}, not {file.sha256}"
