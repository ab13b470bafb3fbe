"""The real programs as processes: the command line, and the init container."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backstay_contract import termination
from backstay_contract.names import Env, Key
from backstay_contract.termination import Termination
from backstay_runtime.pull.settings import ALLOW_LOOPBACK

from .server import Server

TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Ended:
    """A process that ended."""

    code: int
    out: str
    err: str


class Backstay:
    """The command line with the keys of a server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.environment = os.environ | {
            "BACKSTAY_ACCESS_KEY": server.access_key,
            "BACKSTAY_SECRET_KEY": server.secret_key,
            Env.STORAGE_ENDPOINT: server.endpoint,
            "NO_COLOR": "1",
        }

    def start(self, *arguments: object, **environment: str) -> "subprocess.Popen[str]":
        """Starts a command and returns at once."""
        return subprocess.Popen(
            [sys.executable, "-m", "backstay_cli", *map(str, arguments)],
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: object, **environment: str) -> Ended:
        """Runs a command to its end."""
        with self.start(*arguments, **environment) as process:
            out, err = process.communicate(timeout=TIMEOUT_SECONDS)
        assert self._server.secret_key not in out + err, "a secret was printed"
        return Ended(process.returncode, out, err)

    def push(self, folder: Path, uri: str, *options: object, **environment: str) -> Ended:
        """Pushes a folder as model m, version 1."""
        return self.run("push", folder, uri, "--name", "m", "--version", "1", *options, **environment)

    def pushed(self, folder: Path, uri: str, *options: object) -> str:
        """The digest of a folder that was pushed."""
        ended = self.push(folder, uri, *options)
        assert ended.code == 0, ended.err
        return ended.out.strip()


@dataclass(frozen=True)
class Pulled:
    """A pull that ended: its code, its log lines and its termination message."""

    code: int
    log: list[dict[str, Any]]
    termination: Termination | None

    def said(self, message: str) -> dict[str, Any]:
        """The last log line with this message."""
        return next(line for line in reversed(self.log) if line["message"] == message)


@dataclass(frozen=True)
class Pod:
    """An init container's surroundings."""

    folder: Path
    environment: dict[str, str]
    secret_key: str

    @classmethod
    def make(cls, server: Server, folder: Path, uri: str) -> "Pod":
        credentials = folder / "secret"
        credentials.mkdir(parents=True)
        (credentials / Key.ACCESS).write_text(server.access_key)
        (credentials / Key.SECRET).write_text(server.secret_key)
        environment = {
            Env.MODEL_URI: uri,
            Env.STORAGE_ENDPOINT: server.endpoint,
            Env.STORAGE_CREDENTIALS: str(credentials),
            Env.MODELS_FOLDER: str(folder / "models"),
            Env.TERMINATION_LOG: str(folder / "termination"),
            ALLOW_LOOPBACK: "1",
        }
        return cls(folder, environment, server.secret_key)

    def with_(self, **changes: str) -> "Pod":
        """The same with other variables."""
        return replace(self, environment=self.environment | changes)

    @property
    def models(self) -> Path:
        return Path(self.environment[Env.MODELS_FOLDER])

    def model(self, digest: str) -> Path:
        """Where the server looks for the model."""
        return self.models / digest.removeprefix("sha256:")

    def visible(self) -> list[str]:
        """What a server could take for a model."""
        if not self.models.exists():
            return []
        return [path.name for path in self.models.iterdir() if not path.name.startswith(".")]

    def start(self, digest: str) -> "subprocess.Popen[str]":
        """Starts a pull and returns at once."""
        return subprocess.Popen(
            [sys.executable, "-m", "backstay_runtime", "pull"],
            env={**os.environ, **self.environment, Env.MODEL_DIGEST: digest},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ended(self, process: "subprocess.Popen[str]") -> Pulled:
        """Waits for a pull's end."""
        with process:
            out, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        file = self.folder / "termination"
        text = file.read_text() if file.exists() else ""
        assert self.secret_key not in out + text, "a secret was printed"
        log = [json.loads(line) for line in out.splitlines()]
        return Pulled(process.returncode, log, termination.read(text))

    def pull(self, digest: str) -> Pulled:
        """Runs a pull to its end."""
        return self.ended(self.start(digest))
