"""Short commands of the system, run to their end."""

import subprocess
from collections.abc import Sequence

from backstay_cluster.errors import ClusterError


def run(argv: Sequence[str], *, text: str | None = None, timeout_s: float = 60) -> str:
    """Standard output of the command; a ClusterError with its own words when it fails."""
    try:
        done = subprocess.run(list(argv), input=text, capture_output=True, text=True, timeout=timeout_s, check=False)
    except FileNotFoundError:
        raise ClusterError(f"{argv[0]}: not found; `python -m backstay_cluster doctor` says what to install") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{' '.join(argv)}: no end after {timeout_s:.0f} s") from None
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(argv)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def succeeds(argv: Sequence[str], *, timeout_s: float = 60) -> bool:
    """Whether the command ends with exit 0."""
    try:
        run(argv, timeout_s=timeout_s)
    except ClusterError:
        return False
    return True
