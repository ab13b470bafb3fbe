"""rclone's copies, each by a process of its own: its start is in the figure."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from backstay_cluster import programs

from benchmarks.storage.place import MODEL, Published, Storage
from benchmarks.storage.ways import PARALLEL, PART, RANGE, Way

_SETTINGS = (
    "--config=",  # nothing is read from the machine's own
    "--retries=1",
    f"--transfers={PARALLEL}",
    f"--checkers={PARALLEL}",
    f"--multi-thread-streams={PARALLEL}",
    f"--multi-thread-chunk-size={RANGE}B",
    f"--multi-thread-cutoff={RANGE}B",
    f"--s3-upload-concurrency={PARALLEL}",
    f"--s3-chunk-size={PART}B",
    f"--s3-upload-cutoff={PART}B",
    "--s3-no-check-bucket",  # it is there
)
"""The part sizes and numbers of transfers of the other ways; all else is rclone's own default."""


def pulled(storage: Storage) -> Way | None:
    """The model's prefix into a folder; None without the program. What came in one part is compared by MD5."""
    return _copying(storage, lambda folder: (f"bench:{MODEL.bucket}/{MODEL.prefix}", str(folder)))


def pushed(storage: Storage, model: Published) -> Way | None:
    """The model's files to a prefix of their own; None without the program. A file is read for its MD5, then sent."""
    return _copying(storage, lambda folder: (str(model.folder), f"bench:{MODEL.bucket}/rclone/{folder.name}"))


def environment(storage: Storage) -> dict[str, str]:
    """The storage as rclone's remote `bench`. Keys are not arguments: those can be read by everybody."""
    remote = {
        "TYPE": "s3",
        "PROVIDER": "Minio",
        "REGION": "us-east-1",
        "ENDPOINT": storage.url,
        "ACCESS_KEY_ID": storage.access,
        "SECRET_ACCESS_KEY": storage.secret,
    }
    return {f"RCLONE_CONFIG_BENCH_{name}": value for name, value in remote.items()}


def _copying(storage: Storage, places: Callable[[Path], tuple[str, str]]) -> Way | None:
    program = programs.built("rclone")
    if program is None:
        return None

    def run(folder: Path) -> None:
        command = [str(program), "copy", *_SETTINGS, *places(folder)]
        done = subprocess.run(command, env=environment(storage), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"rclone copy: exit {done.returncode}\n{done.stderr}")

    return run
