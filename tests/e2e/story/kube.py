"""kubectl, as the demo and its tests use it."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


class KubectlError(Exception):
    """kubectl failed; the message is its own."""


@dataclass(frozen=True)
class Kube:
    """One cluster, reached with these options."""

    program: str
    options: tuple[str, ...]
    """For example --kubeconfig=… and --context=…"""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    def command(self, *arguments: str) -> list[str]:
        """The command line."""
        return [self.program, *self.options, *arguments]

    def run(self, *arguments: str, text: str | None = None, timeout_s: float = 60) -> str:
        """Standard output. Raises KubectlError."""
        try:
            done = subprocess.run(
                self.command(*arguments),
                input=text,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
                env=dict(self.environment),
            )
        except subprocess.TimeoutExpired:
            raise KubectlError(f"kubectl {' '.join(arguments)}: no end after {timeout_s:.0f} s") from None
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def get(self, *arguments: str) -> Json:
        """An object or a list of them."""
        found: Json = json.loads(self.run("get", *arguments, "--output=json"))
        return found

    def items(self, *arguments: str) -> list[Json]:
        """The objects of a list."""
        found: list[Json] = self.get(*arguments)["items"]
        return found

    def apply(self, *objects: Json, namespace: str | None = None) -> str:
        """Apply objects as a person does, from the client's side; what kubectl says of each."""
        where = () if namespace is None else (f"--namespace={namespace}",)
        return self.run("apply", *where, "--filename=-", text=document(objects))

    def apply_installation(self, objects: Sequence[Json]) -> str:
        """Apply from the server's side: the CRD is too long for the annotation that the client's side keeps."""
        command = ("apply", "--server-side", "--force-conflicts", "--filename=-")
        return self.run(*command, text=document(objects), timeout_s=120)


def document(objects: Sequence[Json]) -> str:
    """The objects as one JSON text. Not as YAML: PyYAML writes the key `n` bare, which kubectl reads as `false`."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
