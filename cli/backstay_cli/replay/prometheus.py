"""A time range from Prometheus' HTTP API: raw points with the times at which the pods were scraped."""

import json
import math
from collections.abc import Mapping
from typing import Any

import urllib3
from backstay_judge import COUNTED, UP
from backstay_judge.readings import PROCESS_START

from backstay_cli.errors import CliError, Exit, refused
from backstay_cli.replay.scrapes import Scrapes, from_series

TIMEOUT_SECONDS = 60.0
MAX_BYTES = 256 * 1024 * 1024

Series = tuple[dict[str, str], list[tuple[float, float]]]


class Prometheus:
    """One Prometheus. Its errors are CliErrors that name the URL."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(total=TIMEOUT_SECONDS), retries=urllib3.Retry(2, redirect=0, status=0)
        )

    def scrapes(self, digest: str, namespace: str | None, begin: float, end: float) -> Scrapes:
        """The scrapes of the pods whose series carry the digest.

        A range selector gives raw points; query_range would give values that are interpolated over its steps, at the
        times of the steps.
        """
        where = {"namespace": namespace} if namespace else {}
        hexdigits = digest.removeprefix("sha256:")
        labelled = tuple(name for name in COUNTED if name != PROCESS_START)
        own = self._range(_selector(labelled, where, digest=f"(sha256:)?{hexdigits}"), begin, end)
        pods = sorted({labels.get("pod", "") for labels, _ in own} - {""})
        if not pods:
            place = f" in namespace {namespace}" if namespace else ""
            raise CliError(f"{self._url}: has no series of digest {digest}{place} in that time", Exit.NOT_FOUND)
        named = "|".join(_literal(pod) for pod in pods)
        beside = self._range(_selector((PROCESS_START, UP), where, pod=named), begin, end)
        return from_series([*own, *beside])

    def _range(self, selector: str, begin: float, end: float) -> list[Series]:
        seconds = max(1, math.ceil(end - begin))
        form = {"query": f"{selector}[{seconds}s]", "time": f"{end:.3f}", "timeout": f"{TIMEOUT_SECONDS:g}s"}
        try:
            answer = self._pool.request(
                "POST", f"{self._url}/api/v1/query", fields=form, encode_multipart=False, preload_content=False
            )
            body = answer.read(MAX_BYTES + 1)
        except urllib3.exceptions.HTTPError as error:
            raise CliError(f"{self._url}: cannot be asked: {error}", Exit.UNREACHABLE) from None
        if len(body) > MAX_BYTES:
            raise refused(f"{self._url}: answered more than {MAX_BYTES} bytes; ask for a shorter time")
        return parse(answer.status, body, self._url)


def parse(status: int, body: bytes, url: str) -> list[Series]:
    """The series in an answer. Raises CliError for everything but a whole matrix."""
    said = body[:200].decode(errors="replace")
    if status in (401, 403):
        raise CliError(f"{url}: answered {status}: {said}", Exit.FORBIDDEN)
    if status != 200:
        raise CliError(f"{url}: answered {status}: {said}", Exit.UNREACHABLE)
    try:
        answer = json.loads(body)
        if answer["status"] != "success" or answer.get("warnings") or answer["data"]["resultType"] != "matrix":
            raise ValueError(str(answer.get("warnings") or answer.get("error") or "no matrix"))
        return [_series(one) for one in answer["data"]["result"]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise refused(f"{url}: does not answer as a Prometheus does ({error}): {said}") from None


def _series(said: Mapping[str, Any]) -> Series:
    labels = {str(name): str(value) for name, value in said["metric"].items()}
    return labels, [(float(at), float(value)) for at, value in said["values"]]


def _selector(series: tuple[str, ...], equal: Mapping[str, str], **matching: str) -> str:
    parts = [f"__name__=~{json.dumps('|'.join(series))}"]
    parts += [f"{name}={json.dumps(value)}" for name, value in equal.items()]
    parts += [f"{name}=~{json.dumps(value)}" for name, value in matching.items()]
    return "{" + ",".join(parts) + "}"


def _literal(pod: str) -> str:
    return pod.replace(".", "\\.")
