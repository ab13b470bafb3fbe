"""The smoke inference: one real request to every pod of the candidate, whose answer must name the digest.

An inference may take longer than a pass may wait, so each runs beside the passes; a pass waits for it only shortly,
and its end asks for another pass. What a pod answered is remembered for as long as its container runs, so that a
candidate which waits for a person gets no requests meanwhile. The memory is only a saving: after a restart the
candidate is asked again.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backstay_contract import digest as digests
from backstay_contract.names import Header, Port
from backstay_contract.resource import ModelDeploymentSpec

from backstay_operator.http import Answer, Http, HttpError, host
from backstay_operator.rollout.observation import Pod, Smoke

PATIENCE_SECONDS = 2.0
"""How long a pass waits for answers."""
WRONG_STATUS = frozenset({400, 404, 405, 413, 422})
"""The candidate refuses a plain request: waiting cannot cure it."""
NOT_FINITE = "non_finite_logits"


@dataclass(frozen=True, slots=True)
class Subject:
    """One start of one pod's container, in one attempt. A restarted container must answer again."""

    uid: str
    """The resource's."""
    attempt: str
    pod: str
    incarnation: str


class SmokeMemory:
    """Smoke inferences under way, and their answers."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self._running: dict[Subject, asyncio.Task[Smoke]] = {}
        self._answers: dict[Subject, Smoke] = {}

    async def ask(
        self,
        spec: ModelDeploymentSpec,
        digest: str,
        subjects: Mapping[Subject, Pod],
        on_end: Callable[[], None],
    ) -> tuple[Smoke, ...]:
        """Answers of the subjects, in their order. `on_end` is called whenever an inference ends after this call."""
        for subject, pod in subjects.items():
            if subject not in self._answers and subject not in self._running:
                task = asyncio.create_task(infer(self._http, spec, digest, pod), name=f"smoke {pod.name}")
                self._running[subject] = task
        waited = [self._running[subject] for subject in subjects if subject in self._running]
        if waited:
            await asyncio.wait(waited, timeout=PATIENCE_SECONDS)
        return tuple(self._answer(subject, on_end) for subject in subjects)

    def _answer(self, subject: Subject, on_end: Callable[[], None]) -> Smoke:
        if subject in self._answers:
            return self._answers[subject]
        task = self._running[subject]
        if not task.done():
            task.add_done_callback(lambda _: on_end())
            return Smoke(subject.pod, passed=False, message=f"pod {subject.pod} has not answered yet")
        del self._running[subject]
        answer = task.result()
        if answer.passed or answer.wrong:
            self._answers[subject] = answer
        return answer

    def forget(self, uid: str, keep_attempt: str | None = None) -> None:
        """Drop what belongs to the resource's other attempts; without one to keep, to all of them."""
        for subject in [s for s in (*self._running, *self._answers) if s.uid == uid and s.attempt != keep_attempt]:
            self._answers.pop(subject, None)
            task = self._running.pop(subject, None)
            if task is not None:
                task.cancel()


async def infer(http: Http, spec: ModelDeploymentSpec, digest: str, pod: Pod) -> Smoke:
    """One inference on one pod."""
    smoke = spec.rollout.checks.smoke
    body = {
        "model": spec.model.name,
        "prompt": smoke.prompt,
        "max_tokens": smoke.max_tokens,
        "temperature": 0,
    }
    try:
        answer = await http.ask(
            "POST",
            f"http://{host(pod.ip or '')}:{Port.HTTP}/v1/completions",
            body=body,
            within=smoke.timeout_seconds,
        )
    except HttpError as error:
        return Smoke(pod.name, passed=False, message=f"smoke inference: {error}")
    return assess(pod.name, digest, answer)


def assess(pod: str, digest: str, answer: Answer) -> Smoke:
    """What the answer is worth. Pure."""
    said = _excerpt(answer)
    if answer.status != 200:
        wrong = answer.status in WRONG_STATUS or NOT_FINITE in said
        return Smoke(pod, passed=False, wrong=wrong, message=f"smoke inference answered {answer.status}: {said}")
    named = answer.headers.get(Header.DIGEST, "")
    if named != digests.normalise(digest):
        found = named or "no digest"
        return Smoke(pod, passed=False, wrong=True, message=f"{Header.DIGEST}: expected {digest}, the pod says {found}")
    try:
        problem = _problem(answer.json())
    except HttpError as error:
        problem = str(error)
    if problem:
        return Smoke(pod, passed=False, wrong=True, message=f"smoke inference: {problem}")
    return Smoke(pod, passed=True, message="smoke inference passed")


def _problem(body: Any) -> str:
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices:
        return "the answer has no choices"
    if not all(isinstance(choice, dict) and isinstance(choice.get("text"), str) for choice in choices):
        return "a choice has no text"
    if not all(math.isfinite(number) for number in _numbers(choices)):
        return "the answer has numbers that are not finite"
    return ""


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _numbers(part)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _numbers(part)


def _excerpt(answer: Answer) -> str:
    return answer.body[:200].decode(errors="replace")
