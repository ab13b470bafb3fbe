"""The load's pods: one for each kind of connection, from the moment something serves until the end."""

import time
from pathlib import Path

from tests.e2e.story import answers, objects, settings
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

    def start(self) -> None:
        """Start the pods, and wait until each has had its first answer."""
        self._kube.apply(objects.load_client(CLIENT.read_text()))
        self._kube.apply(*(objects.load_pod(kind, self._image) for kind in settings.KINDS))
        pods = [f"pod/load-{kind}" for kind in settings.KINDS]
        self._kube.run("wait", *pods, self._where, "--for=condition=Ready", "--timeout=60s", timeout_s=70)

    def answers(self) -> list[Answer]:
        """All requests that have ended so far."""
        return [answer for kind in settings.KINDS for answer in answers.parse(self._text(kind))]

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
