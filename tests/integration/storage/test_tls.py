"""Storage behind TLS: the certificate is checked against the endpoint's name, whatever address was connected to."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from backstay_contract.termination import GaveUp

from . import server as servers
from .models import publish, write_model
from .processes import Backstay, Pod
from .server import Server


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory, storage: Server) -> Iterator[Server]:
    """A MinIO with a certificate for localhost, which vouches for itself."""
    folder = tmp_path_factory.mktemp("tls")
    certificates = folder / "certificates"
    certificates.mkdir()
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(certificates / "private.key"), "-out", str(certificates / "public.crt")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "data").mkdir()
    minio = servers.program()
    assert minio is not None
    with servers.running(minio, folder / "data", certificates) as server:
        server.client().make_bucket("models")
        yield server


@pytest.fixture
def digest(tls: Server, tmp_path: Path) -> str:
    return publish(tls, write_model(tmp_path / "model"), "s3://models/m/1")


def test_a_model_is_pulled_over_tls(tls: Server, digest: str, tmp_path: Path) -> None:
    pod = Pod.make(tls, tmp_path / "pod", "s3://models/m/1").with_(SSL_CERT_FILE=str(tls.certificate))
    assert pod.pull(digest).code == 0
    assert pod.visible() == [digest.removeprefix("sha256:")]


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(tls: Server, digest: str, tmp_path: Path) -> None:
    pulled = Pod.make(tls, tmp_path / "pod", "s3://models/m/1").pull(digest)
    assert pulled.termination is not None
    assert (pulled.code, pulled.termination.reason) == (13, GaveUp.STORAGE_UNREACHABLE)
    assert "certificate" in pulled.termination.message


def test_a_certificate_for_another_name_is_not_trusted(tls: Server, digest: str, tmp_path: Path) -> None:
    pod = Pod.make(tls, tmp_path / "pod", "s3://models/m/1").with_(
        SSL_CERT_FILE=str(tls.certificate), BACKSTAY_STORAGE_ENDPOINT=f"https://127.0.0.1:{tls.port}"
    )
    assert pod.pull(digest).code == 13


def test_a_push_over_tls_checks_the_certificate_too(tls: Server, digest: str) -> None:
    backstay = Backstay(tls)
    assert backstay.run("verify", "s3://models/m/1", SSL_CERT_FILE=str(tls.certificate)).out.startswith(digest)
    assert backstay.run("verify", "s3://models/m/1").code == 7
