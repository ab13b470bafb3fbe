"""`python -m backstay_runtime pull|serve`: the entry points of the runtime's image."""

import os
import sys
from collections.abc import Sequence

USAGE = "usage: python -m backstay_runtime pull|serve [-h]\n"


def main(argv: Sequence[str]) -> int:
    """Hands over to a subcommand; only what it needs is imported (pull needs no torch)."""
    if argv and argv[0] == "pull":
        from backstay_runtime.pull.main import main as pull  # noqa: PLC0415

        return pull(argv[1:])
    if argv and argv[0] == "serve":
        # Read by OpenMP when torch is imported. Threads that spin while they wait take the processor from whoever
        # has work: on a busy machine of two processors a step took ten times as long.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from backstay_runtime.serve import main as serve  # noqa: PLC0415

        return serve(argv[1:])
    asked = bool(argv) and argv[0] in ("-h", "--help")
    (sys.stdout if asked else sys.stderr).write(USAGE)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
