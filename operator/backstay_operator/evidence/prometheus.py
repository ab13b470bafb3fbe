"""Samples from Prometheus: the last raw point of each series, with the time at which the pod was scraped.

A range selector is asked for, not an instant one: an instant query answers with the time of the query, which would
make every stale sample look fresh.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from backstay_judge import COUNTED, UP, Sample

from backstay_operator.evidence import targets
from backstay_operator.http import Answer, Http, HttpError

RANGE_SECONDS = 30
"""How far back a series' last point may lie to be found at all; the judge decides whether it is too old."""


def query(namespace: str, pods: Sequence[str]) -> str:
    """The PromQL of one look at some pods."""
    series = "|".join((*COUNTED, UP))
    named = "|".join(re.escape(pod) for pod in sorted(pods))
    selector = f"__name__=~{_quoted(series)},namespace={_quoted(namespace)},pod=~{_quoted(named)}"
    return f"{{{selector}}}[{RANGE_SECONDS}s]"


def _quoted(text: str) -> str:
    return json.dumps(text)


async def samples(http: Http, url: str, namespace: str, pods: Sequence[str]) -> tuple[Sample, ...]:
    """The samples of the pods; none where Prometheus has none. Raises HttpError for everything but a whole answer."""
    answer = await http.ask("POST", f"{url}/api/v1/query", form={"query": query(namespace, pods), "timeout": "2s"})
    return targets.one_per_pod(parse(answer))


def parse(answer: Answer) -> tuple[Sample, ...]:
    """The samples in an answer of the HTTP API. Raises HttpError: nothing that is doubtful becomes a number."""
    if answer.status != 200:
        said = answer.body[:200].decode(errors="replace")
        raise HttpError(f"Prometheus answered {answer.status}: {said}")
    body = answer.json()
    if not isinstance(body, dict) or body.get("status") != "success":
        raise HttpError("Prometheus did not answer with success")
    if body.get("warnings"):
        raise HttpError(f"Prometheus gave a partial answer: {str(body['warnings'])[:200]}")
    data = body.get("data")
    if not isinstance(data, dict) or data.get("resultType") != "matrix" or not isinstance(data.get("result"), list):
        raise HttpError("Prometheus did not answer with a matrix")
    return tuple(_series(series) for series in data["result"])


def _series(series: Any) -> Sample:
    try:
        labels = {str(name): str(value) for name, value in series["metric"].items()}
        timestamp, value = series["values"][-1]
        if isinstance(timestamp, bool) or not isinstance(timestamp, int | float) or not isinstance(value, str):
            raise TypeError(f"{value!r} at {timestamp!r} is no point")
        return Sample(labels.pop("__name__"), labels, float(value), float(timestamp))
    except (TypeError, KeyError, IndexError, ValueError, AttributeError) as error:
        raise HttpError(f"Prometheus sent a series of another form: {error}") from error
