"""`python -m backstay_cluster`: a real Kubernetes for demo and tests."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from backstay_cluster import commands
from backstay_cluster.cluster import DEFAULT_NAME
from backstay_cluster.errors import ClusterError

_DESCRIPTION = """\
A real Kubernetes on this machine, without Docker: etcd, API server, controllers, scheduler, kubelet and containerd,
built from pinned Go modules, in a network namespace of its own. Nothing outside the machine is reached once the
programs are built, and `down` leaves nothing behind."""
_EPILOG = """\
examples:
  python -m backstay_cluster up                       start the cluster, or repair it
  python -m backstay_cluster up --control-plane-only  an API without a node, in seconds, for tests
  python -m backstay_cluster kubectl get pods -A
  python -m backstay_cluster exec -- curl http://minio.minio:9000/minio/health/live
  python -m backstay_cluster logs kubelet -f
  python -m backstay_cluster down

exit codes: 0 done; 1 failed, the reason is on standard error; 2 wrong use; 3 `status`: not all of it runs;
4 `doctor`: something is missing. `kubectl`, `exec` and `shell` give the exit code of what they run.

environment: BACKSTAY_RUN  folder of running clusters, default /run/backstay
             BACKSTAY_CACHE  built programs, images; default ~/.cache/backstay"""

_PASSED_ON = ("kubectl", "exec", "images")
"""Verbs whose arguments are another program's, options included."""


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        "python -m backstay_cluster",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = top.add_subparsers(dest="verb", metavar="COMMAND", required=True)

    up = _verb(verbs, "up", commands.up, "start the cluster, or repair the one that runs")
    up.add_argument("--control-plane-only", action="store_true", help="API server and controllers, no node")
    up.add_argument(
        "--addons",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="object storage (MinIO) and monitoring (Prometheus, Alertmanager) as pods",
    )
    down = _verb(verbs, "down", commands.down, "end the cluster and remove all it left")
    down.add_argument("--purge", action="store_true", help="remove the node's images, too")
    down.add_argument("--all", action="store_true", help="every cluster of this machine")
    status = _verb(verbs, "status", commands.status, "what runs, and how it is")
    _output(status)
    logs = _verb(verbs, "logs", commands.logs, "a component's log")
    logs.add_argument("component", metavar="COMPONENT", help="for example kube-apiserver or kubelet")
    logs.add_argument("-f", "--follow", action="store_true", help="go on as it grows")
    kubectl = _verb(verbs, "kubectl", commands.kubectl, "kubectl as the cluster's administrator", named=True)
    kubectl.add_argument("arguments", nargs="*", metavar="...")
    execute = _verb(
        verbs, "exec", commands.execute, "run a command in the cluster's network, KUBECONFIG set", named=True
    )
    execute.add_argument("arguments", nargs="*", metavar="[--] COMMAND ...")
    _verb(verbs, "shell", commands.shell, "a shell in the cluster's network")
    build = _verb(verbs, "build", commands.build, "build the programs that are not in the cache", named=False)
    build.add_argument("--only", metavar="NAMES", help="comma-separated; helm and rclone only when named here")
    _output(build)
    doctor = _verb(verbs, "doctor", commands.doctor, "what this machine lacks, and how to get it", named=False)
    _output(doctor)
    images = _verb(
        verbs, "images", commands.images, "build the images; see images --help", named=False, help_option=False
    )
    images.add_argument("arguments", nargs="*", metavar="...")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = parser().parse_args(shielded(sys.argv[1:] if argv is None else argv))
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except ClusterError as error:
        print(f"backstay_cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("backstay_cluster: interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, `head` for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def shielded(argv: Sequence[str]) -> list[str]:
    """The arguments with a `--` before those that belong to another program, so that its options are not ours. Only
    `--name` right after the verb is ours there."""
    words = list(argv)
    if not words or words[0] not in _PASSED_ON:
        return words
    ours = 1
    if words[0] == "exec" and words[1:2] in (["-h"], ["--help"]):
        return words
    if words[ours : ours + 1] == ["--name"]:
        ours += 2
    elif words[ours : ours + 1] and words[ours].startswith("--name="):
        ours += 1
    return [*words[:ours], "--", *words[ours:]]


def _verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], int],
    explanation: str,
    *,
    named: bool = True,
    help_option: bool = True,
) -> argparse.ArgumentParser:
    verb = verbs.add_parser(name, help=explanation, description=explanation, add_help=help_option)
    verb.set_defaults(run=run)
    if named:
        verb.add_argument("--name", default=DEFAULT_NAME, help=f"which cluster, default {DEFAULT_NAME!r}")
    return verb


def _output(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("-o", "--output", choices=("text", "json"), default="text", help="form of the result")
