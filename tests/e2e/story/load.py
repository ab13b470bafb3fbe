"""The load's pods: one for each kind of connection, from the moment something serves until the end."""

import time
from pathlib import Path

from tests.e2e.story import answers, figures, objects, settings
from tests.e2e.story.answers import Answer
from tests.e2e.story.kube import Kube

CLIENT = Path(__file__).with_name("client") / "load.py"
UNDER_WAY_S = 2.0
"""A request sent this recently may not be answered yet; older ones without an answer are missing."""


class Load:
    """Requests to the active Service, from inside the cluster."""

    def __init__(self, kube: Kube, image: str) -> None:
        self._kube, self._image = kube, image
        self._where = f"--namespace={settings.DEMO}"

    def probe(self) -> float:
        """Requests per second, of all kinds together, that keep the engine as busy as is wanted."""
        self._kube.apply(objects.load_client(CLIENT.read_text()))
        self._kube.apply(objects.load_pod("probe", self._image, times=settings.PROBES))
        ended = "--for=jsonpath={.status.phase}=Succeeded"
        self._kube.run("wait", "pod/load-probe", self._where, ended, "--timeout=120s", timeout_s=130)
        return figures.rate(answers.parse(self._text("probe")))

    def start(self, rate: float) -> None:
        """Start the pods; each sends its part of so many requests per second."""
        share = rate / len(settings.KINDS)
        pods = [
            objects.load_pod(kind, self._image, rate=share, connections=settings.CONNECTIONS) for kind in settings.KINDS
        ]
        self._kube.apply(*pods)
        names = [f"pod/load-{kind}" for kind in settings.KINDS]
        self._kube.run("wait", *names, self._where, "--for=condition=Ready", "--timeout=60s", timeout_s=70)

    def answers(self) -> list[Answer]:
        """All requests that have ended so far."""
        return [answer for kind in settings.KINDS for answer in answers.parse(self._text(kind))]

    def settled(self) -> bool:
        """Whether every request that is not quite recent has been answered."""
        until, found = time.time() - UNDER_WAY_S, self.answers()
        return not any(answers.missing(found, kind, until) for kind in settings.KINDS)

    def keep(self, folder: Path) -> tuple[list[Answer], float]:
        """All requests, also written into the folder as they are, and the time up to which they are complete."""
        until = time.time() - UNDER_WAY_S
        found: list[Answer] = []
        for kind in settings.KINDS:
            text = self._text(kind)
            (folder / f"load-{kind}.jsonl").write_text(text)
            found += answers.parse(text)
        return found, until

    def _text(self, kind: str) -> str:
        return self._kube.run("logs", f"pod/load-{kind}", self._where)
