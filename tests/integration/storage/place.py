"""Where one fault is played: a bucket behind a proxy, a model, pods that share a cache, and the command line."""

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from backstay_contract.names import MANIFEST_FILE, Env
from backstay_runtime.hold import hold_file
from backstay_runtime.pull.cache import IDLE

from .models import MIB, publish, write_model
from .processes import Backstay, Ended, Pod, Pulled
from .proxy import Proxy, Rule
from .server import Server

WEIGHTS = "model.safetensors"
SIZE = 20 * MIB
SLOW = 20e6
"""Bytes per second of a storage that is slow enough to be hit on the way."""
DEADLINE_SECONDS = 60


@dataclass(frozen=True)
class Place:
    """One cell's own bucket and folder."""

    server: Server
    proxy: Proxy
    folder: Path
    bucket: str

    @classmethod
    def make(cls, server: Server, proxy: Proxy, folder: Path) -> "Place":
        bucket = f"faults-{uuid.uuid4().hex[:10]}"
        server.client().make_bucket(bucket)
        write_model(folder / "model", SIZE)
        return cls(server, proxy, folder, bucket)

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/m/1"

    def key(self, path: str = WEIGHTS) -> str:
        return f"m/1/{path}"

    def publish(self) -> str:
        """The model is there; its digest."""
        return publish(self.server, self.model, self.uri)

    def rule(self, rule: Rule) -> None:
        self.proxy.rule = rule

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self.proxy.rule = lambda method, path, headers: None

    def push(self, **environment: str) -> Ended:
        """A push through the proxy."""
        return Backstay(self.server).push(
            self.model, self.uri, **{Env.STORAGE_ENDPOINT: self.proxy.endpoint} | environment
        )

    def start_push(self) -> "subprocess.Popen[str]":
        arguments = ("push", self.model, self.uri, "--name", "m", "--version", "1")
        return Backstay(self.server).start(*arguments, **{Env.STORAGE_ENDPOINT: self.proxy.endpoint})

    def published(self) -> str | None:
        """The digest of a model that is there whole; None where none is visible. Half of one is an error."""
        names = {str(one.object_name) for one in self.server.client().list_objects(self.bucket, recursive=True)}
        if self.key(MANIFEST_FILE) not in names:
            return None
        ended = Backstay(self.server).run("verify", self.uri)
        assert ended.code == 0, f"a model is visible that is not whole: {ended.err}"
        return ended.out.split()[0]

    def pod(self, name: str = "pod", uri: str | None = None) -> Pod:
        """A pod whose storage is behind the proxy; pods of one place share their models folder."""
        pod = Pod.make(self.server, self.folder / name, uri or self.uri)
        changes = {Env.STORAGE_ENDPOINT: self.proxy.endpoint, Env.MODELS_FOLDER: str(self.folder / "models")}
        return pod.with_(**changes)

    def whole(self, pod: Pod, digest: str) -> bool:
        """Whether the model lies where the server looks for it, byte by byte. Anything else visible is an error."""
        visible = [name for name in pod.visible() if name == digest.removeprefix("sha256:")]
        if not visible:
            return False
        same = all((pod.model(digest) / path.name).read_bytes() == path.read_bytes() for path in self.model.iterdir())
        assert same, "a model is visible that is not whole"
        return True

    def fetched(self, pulled: Pulled) -> int:
        """Bytes that came over the network."""
        assert pulled.code == 0, pulled.termination
        return int(pulled.said("model is ready to be loaded")["fetched"])

    def until_bytes(self, count: int) -> None:
        """Waits until so many bytes went through the proxy, either way."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        before = self.proxy.bytes_in + self.proxy.bytes_out
        while self.proxy.bytes_in + self.proxy.bytes_out - before < count:
            assert time.monotonic() < deadline, "the bytes do not come"
            time.sleep(0.01)


def make_idle(pod: Pod, digest: str) -> None:
    """As if nobody had used the model for a day."""
    name, day_ago = digest.removeprefix("sha256:"), time.time() - 86400
    mark = pod.models / f"{IDLE}{name}"
    mark.touch()
    for file in (mark, hold_file(pod.models, name)):
        os.utime(file, (day_ago, day_ago))


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[None]:
    """A disk of its own at the folder."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def can_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None
