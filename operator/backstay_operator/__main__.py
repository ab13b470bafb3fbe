"""`python -m backstay_operator run` and `release`. Exit codes: 0 done, 1 failed, 2 wrong settings or arguments."""

import argparse
import asyncio
import logging
import os
import sys

from kubernetes.aio.config import ConfigException

from backstay_operator import logs, settings
from backstay_operator.client import ApiError
from backstay_operator.release import release
from backstay_operator.run import run

log = logging.getLogger("backstay_operator")


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit code."""
    given = _parser().parse_args(arguments)
    try:
        if given.verb == "release":
            logs.configure("text", sys.stderr)
            count = asyncio.run(release(tuple(given.namespace)))
            sys.stdout.write(f"{count} resources let go\n")
        else:
            chosen = settings.read(os.environ)
            logs.configure(chosen.log_format)
            asyncio.run(run(chosen))
    except settings.SettingsError as error:
        sys.stderr.write(f"backstay-operator: {error}\n")
        return 2
    except ConfigException as error:
        sys.stderr.write(f"backstay-operator: no cluster: {error}; set KUBECONFIG, or run it in a pod\n")
        return 2
    except ApiError as error:
        sys.stderr.write(f"backstay-operator: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m backstay_operator", description="Backstay's Kubernetes operator.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("run", help="watch ModelDeployments; settings come from BACKSTAY_… environment variables")
    releasing = verbs.add_parser(
        "release", help="remove the operator's finalizer from all resources (for an uninstall)"
    )
    releasing.add_argument(
        "--namespace", action="append", default=[], help="only this namespace; may be given several times"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
