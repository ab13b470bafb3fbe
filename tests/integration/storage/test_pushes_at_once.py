"""Pushes of one model to one place at the same time: what one has done, the other finds."""

import subprocess
from pathlib import Path

import pytest
from backstay_contract.names import Env

from .models import MIB, write_model
from .processes import Backstay
from .proxy import Action, Proxy


@pytest.fixture
def uri(bucket: str) -> str:
    return f"s3://{bucket}/m/1"


@pytest.mark.parametrize("size", [3 * MIB, 40 * MIB], ids=["in one request", "in parts"])
def test_pushes_of_the_same_model_at_the_same_time_all_succeed_with_one_digest(
    backstay: Backstay, uri: str, proxy: Proxy, tmp_path: Path, size: int
) -> None:
    proxy.rule = lambda method, path, headers: Action(bytes_per_second=20e6) if method == "PUT" else None
    folder = write_model(tmp_path / "model", size)
    ended = [communicated(one) for one in started(backstay, folder, uri, proxy, 3)]
    assert [code for code, _, _ in ended] == [0, 0, 0], ended
    (digest,) = {out.strip() for _, out, _ in ended}
    assert backstay.run("verify", uri, "--read", "--sha256", digest).code == 0


def started(backstay: Backstay, folder: Path, uri: str, proxy: Proxy, count: int) -> list[subprocess.Popen[str]]:
    arguments = ("push", folder, uri, "--name", "m", "--version", "1")
    return [backstay.start(*arguments, **{Env.STORAGE_ENDPOINT: proxy.endpoint}) for _ in range(count)]


def communicated(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err
