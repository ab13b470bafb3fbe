"""The model that is measured, over HTTP: who it is, one request, and the loss of a text."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import urllib3
from backstay_contract import digest as digests
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from backstay_cli.bench.figures import Answer
from backstay_cli.bench.mix import SAMPLE, Question, Scale
from backstay_cli.errors import CliError, Exit, refused

CONNECTIONS = 512


class Identity(NamedTuple):
    """What answers."""

    model: str
    digest: str
    runtime_version: str
    max_model_len: int | None


class Target:
    """A server of the completions API."""

    def __init__(self, url: str, timeout_seconds: float = 120.0) -> None:
        self.url = url.rstrip("/")
        self._pool = urllib3.PoolManager(
            maxsize=CONNECTIONS, retries=False, timeout=urllib3.Timeout(connect=5, read=timeout_seconds)
        )

    def identity(self) -> Identity:
        """Who answers. Raises CliError."""
        with self._reached():
            who = self._json(self._pool.request("GET", f"{self.url}/version"))
            listed = self._json(self._pool.request("GET", f"{self.url}/v1/models"))
        try:
            longest = listed["data"][0].get("max_model_len")
            return Identity(str(who["model"]), digests.normalise(str(who["digest"])), str(who["version"]), longest)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            raise refused(f"{self.url}/version: does not say what serves there; give the URL of a runtime") from None

    def scale(self, who: Identity) -> Scale:
        """What the model makes of a text like the questions. Raises CliError."""
        prompt = SAMPLE[: who.max_model_len // 2] if who.max_model_len else SAMPLE
        body = {"model": who.model, "prompt": prompt, "max_tokens": 1}
        with self._reached():
            found = self._json(self._pool.request("POST", f"{self.url}/v1/completions", json=body))
        try:
            return Scale(found["usage"]["prompt_tokens"] / len(prompt), who.max_model_len)
        except (KeyError, TypeError):
            raise refused(f"{self.url}: the answer does not say how many tokens the prompt had") from None

    def ask(self, model: str, question: Question) -> Answer:
        """One streamed request. A failure is an answer with an error."""
        body = {
            "model": model,
            "prompt": question.prompt,
            "max_tokens": question.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        began = time.monotonic()
        try:
            return self._streamed(body, question.kind, began)
        except (HTTPError, OSError, ValueError) as error:
            return Answer(question.kind, began, time.monotonic(), error=type(error).__name__)

    def _streamed(self, body: dict[str, Any], kind: str, began: float) -> Answer:
        response = self._pool.request("POST", f"{self.url}/v1/completions", json=body, preload_content=False)
        first, tokens, done, problem = None, 0, False, None
        try:
            if response.status != 200:
                response.drain_conn()
                return Answer(kind, began, time.monotonic(), error=str(response.status))
            for event in _events(response):
                if event == "[DONE]":
                    done = True
                    continue
                said = json.loads(event)
                problem = problem or ("error event" if "error" in said else None)
                if first is None and said.get("choices"):
                    first = time.monotonic()
                tokens = (said.get("usage") or {}).get("completion_tokens", tokens)
        finally:
            response.release_conn()
        problem = problem or (None if done else "cut off")
        return Answer(kind, began, time.monotonic(), first, tokens, problem)

    def loss(self, model: str, text: str) -> tuple[float, int]:
        """The sum of -ln p over the text's predicted tokens, and their number. Raises CliError."""
        body = {"model": model, "prompt": text, "max_tokens": 0, "echo": True, "logprobs": 1}
        with self._reached():
            found = self._json(self._pool.request("POST", f"{self.url}/v1/completions", json=body))
        try:
            given = [one for one in found["choices"][0]["logprobs"]["token_logprobs"] if one is not None]
        except (KeyError, IndexError, TypeError):
            raise refused(f"{self.url}: the answer has no log-probabilities of the prompt") from None
        if not given:
            raise refused(f"{self.url}: a text of the evaluation set has no predicted token: {text[:40]!r}")
        return -sum(given), len(given)

    def _json(self, response: BaseHTTPResponse) -> dict[str, Any]:
        if response.status != 200:
            raise refused(f"{self.url}: answered {response.status}: {response.data[:200].decode(errors='replace')}")
        try:
            value = json.loads(response.data)
        except ValueError:
            raise refused(f"{self.url}: answered with no JSON") from None
        return value if isinstance(value, dict) else {}

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except (HTTPError, OSError) as error:
            raise CliError(f"{self.url} cannot be reached: {error}; check --url", Exit.UNREACHABLE) from None


def _events(response: BaseHTTPResponse) -> Iterator[str]:
    """The data of each server-sent event."""
    rest = b""
    for chunk in response.stream(65536, decode_content=True):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip().decode()
