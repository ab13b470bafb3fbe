"""A pushed model under a new manifest: its files are copied inside the storage, none is sent again."""

from concurrent.futures import ThreadPoolExecutor

from backstay_contract import digest as digests
from backstay_contract import manifest as manifests
from backstay_contract.manifest import Manifest, ModelFile
from backstay_contract.names import MANIFEST_FILE
from minio.commonconfig import ComposeSource

from backstay_cli.errors import refused
from backstay_cli.storage.store import SHA256_HEADER, Store

PARALLEL = 4


def requalify(source: Store, target: Store, manifest: Manifest) -> str:
    """Publishes `manifest` at the target with the source's files; returns its digest. Raises CliError.

    As with a push, the manifest comes last and a published one is never replaced. Every pull hashes every byte, so a
    copy that went wrong cannot be served.
    """
    if source.location == target.location:
        raise refused(f"{target.location}: a published model is never replaced; give --to a prefix of its own")
    data = manifests.dump(manifest)
    there = target.read(MANIFEST_FILE, manifests.MAX_BYTES)
    if there is not None and there != data:
        raise refused(f"{target.location} holds another model already; give --to a prefix of its own")
    with ThreadPoolExecutor(PARALLEL, "copy") as pool:
        list(pool.map(lambda file: _copy(source, target, file), manifest.files))
    if there is None and not target.put_new(MANIFEST_FILE, data):
        raise refused(f"{target.location}: another push was quicker; give --to a prefix of its own")
    return manifests.digest_of(data)


def _copy(source: Store, target: Store, file: ModelFile) -> None:
    sha256 = digests.hex_of(file.sha256)
    present = target.stat(file.path)
    if present is not None and (present.size, present.sha256) == (file.size, sha256):
        return
    if present is not None:
        raise refused(f"{target.location}: {file.path} is there with other bytes; give --to a prefix of its own")
    key = target.location.key(file.path)
    with target.told_apart(source.location.key(file.path)):
        target.client.compose_object(
            target.location.bucket,
            key,
            [ComposeSource(source.location.bucket, source.location.key(file.path))],
            metadata={SHA256_HEADER: sha256},
        )
