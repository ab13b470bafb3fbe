"""`make faults`: every fault on every way against a real MinIO, a line for each.

    python -m tests.integration.storage.faults [FAULT …]

Exit code 1 when a cell ends otherwise than it must: bytes lost, or half of a model visible.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from . import proxy as proxies
from . import server as servers
from .cells import CELLS, FAULTS, NotHereError
from .place import Place
from .server import Server


def play(server: Server, fault: str, way: str) -> tuple[bool, str]:
    """Whether a cell ended as it must, and its outcome."""
    with tempfile.TemporaryDirectory() as folder, proxies.running(server.port) as proxy:
        try:
            return True, CELLS[fault, way](Place.make(server, proxy, Path(folder)))
        except NotHereError as why:
            return True, f"not played: {why}"
        except Exception as error:
            return False, f"{type(error).__name__}: {error}"


def main(wanted: Sequence[str]) -> int:
    """Plays the cells of some faults, or of all; returns the exit code."""
    unknown = set(wanted) - set(FAULTS)
    program = servers.program()
    if unknown or program is None:
        why = f"no such fault: {sorted(unknown)}; known: {', '.join(FAULTS)}" if unknown else "MinIO is not built"
        sys.stderr.write(f"{why}\n")
        return 2
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        (data := Path(folder) / "data").mkdir()
        with servers.running(program, data) as server:
            for fault, way in CELLS:
                if wanted and fault not in wanted:
                    continue
                began = time.monotonic()
                good, outcome = play(server, fault, way)
                bad += not good
                mark, seconds = "ok " if good else "BAD", time.monotonic() - began
                sys.stdout.write(f"{mark}  {fault:<10}  {way:<5}  {seconds:>5.1f} s  {outcome}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{bad} cells ended otherwise than they must\n" if bad else "nothing lost, nothing half-visible\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
