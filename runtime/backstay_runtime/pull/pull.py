"""The sequence of a pull: verified model in the models folder, or a PullError."""

import errno
from dataclasses import dataclass
from pathlib import Path

from backstay_contract.names import MANIFEST_FILE
from backstay_contract.termination import GaveUp

from backstay_runtime.pull import install, verify
from backstay_runtime.pull.cache import Cache
from backstay_runtime.pull.checks import check_manifest, check_profile
from backstay_runtime.pull.download import Download, Options
from backstay_runtime.pull.errors import PullError
from backstay_runtime.pull.lock import lock_file, waiting_for
from backstay_runtime.pull.log import Log
from backstay_runtime.pull.partial import Partial
from backstay_runtime.pull.progress import Progress, report
from backstay_runtime.pull.settings import Settings
from backstay_runtime.pull.storage import Storage


@dataclass(frozen=True)
class Outcome:
    """What a pull did."""

    folder: Path
    bytes_total: int
    bytes_fetched: int
    bytes_resumed: int
    seconds: float


def pull(settings: Settings, storage: Storage, options: Options, log: Log) -> Outcome:
    """Brings the model of `settings` into its folder. Raises PullError.

    A mismatch removes what was fetched; any other failure keeps it for the next try.
    """
    final = settings.models / settings.hex_digest
    try:
        settings.models.mkdir(parents=True, exist_ok=True)
        with waiting_for(lock_file(settings.models, settings.hex_digest), log, "another pod pulls this digest"):
            cache = Cache(settings.models, settings.hex_digest, settings.cache_bytes, log)
            cache.note_use()
            return _installed(settings, final, log) or _fetched(settings, storage, cache, options, log)
    except OSError as error:
        raise _disk_error(error, settings.models) from error


def _installed(settings: Settings, final: Path, log: Log) -> Outcome | None:
    """The outcome for a model that is here already, or None when there is none that is good."""
    if not final.exists():
        return None
    with Progress(log) as progress:
        said = verify.problem(final, settings.digest)
        if said is None:
            manifest = verify.manifest_of(final)
            check_profile(settings.profile, manifest.hardware_profile)
            return Outcome(final, manifest.size, 0, 0, progress.seconds)
    log("the model in the models folder is damaged; fetching it anew", level="warning", problem=said)
    install.remove(final)
    return None


def _fetched(settings: Settings, storage: Storage, cache: Cache, options: Options, log: Log) -> Outcome:
    final = settings.models / settings.hex_digest
    partial = Partial(settings.models, settings.hex_digest)
    with Progress(log) as progress:
        download = Download(storage, partial, options, progress, log)
        data = download.manifest()
        manifest = check_manifest(data, settings.digest)
        check_profile(settings.profile, manifest.hardware_profile)
        log(
            "pulling model",
            uri=str(settings.location),
            digest=settings.digest,
            files=len(manifest.files),
            bytes=manifest.size,
        )
        try:
            partial.open(file.path for file in manifest.files)
            download.run(manifest, cache.room)
        except PullError as error:
            if error.termination.reason is GaveUp.DIGEST_MISMATCH:
                partial.discard()
            raise
        finally:
            partial.close()
        (partial.model / MANIFEST_FILE).write_bytes(data)
        install.install(partial, final)
        counts, seconds = progress.counts, progress.seconds
    said = report(counts, seconds)
    log("model is whole", digest=settings.digest, bytes=counts.total, resumed=counts.resumed,
        fetched=counts.fetched, seconds=round(seconds, 3), mb_per_second=said.mb_per_second)  # fmt: skip
    return Outcome(final, counts.total, counts.fetched, counts.resumed, seconds)


def _disk_error(error: OSError, models: Path) -> PullError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return PullError(
            GaveUp.INSUFFICIENT_STORAGE, f"{models}: the volume ran full while the model was written; give it more room"
        )
    return PullError(
        GaveUp.INTERNAL, f"{models}: {error.strerror or error} ({error.filename}); the models volume must be writable"
    )
