import datetime
import stat
from pathlib import Path

import pytest
import yaml
from backstay_cluster import certificates, credentials
from backstay_cluster.cluster import Cluster
from cryptography import x509
from cryptography.x509 import verification

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


def _verifier(authority: x509.Certificate, host: str, at: datetime.datetime = NOW) -> verification.ServerVerifier:
    store = verification.Store([authority])
    return verification.PolicyBuilder().store(store).time(at).build_server_verifier(x509.DNSName(host))


def _load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_server_certificate_is_valid_for_its_hosts_and_no_other() -> None:
    root = certificates.authority("root", NOW)
    pem, _ = certificates.issue(root, "server", NOW, hosts=("kubernetes.default.svc", "10.96.0.1"))
    certificate = x509.load_pem_x509_certificate(pem)
    _verifier(root.certificate, "kubernetes.default.svc").verify(certificate, [])
    with pytest.raises(verification.VerificationError):
        _verifier(root.certificate, "elsewhere").verify(certificate, [])


def test_another_authority_does_not_vouch_for_it() -> None:
    root, other = certificates.authority("root", NOW), certificates.authority("root", NOW)
    pem, _ = certificates.issue(root, "server", NOW, hosts=("a.example",))
    with pytest.raises(verification.VerificationError):
        _verifier(other.certificate, "a.example").verify(x509.load_pem_x509_certificate(pem), [])


def test_a_certificate_is_valid_a_little_before_it_was_made_and_not_after_a_year() -> None:
    root = certificates.authority("root", NOW)
    pem, _ = certificates.issue(root, "server", NOW, hosts=("a.example",))
    certificate = x509.load_pem_x509_certificate(pem)
    _verifier(root.certificate, "a.example", NOW - datetime.timedelta(minutes=30)).verify(certificate, [])
    with pytest.raises(verification.VerificationError):
        _verifier(root.certificate, "a.example", NOW + datetime.timedelta(days=366)).verify(certificate, [])


def test_a_client_certificate_cannot_serve() -> None:
    root = certificates.authority("root", NOW)
    pem, _ = certificates.issue(root, "client", NOW, group="system:nodes")
    certificate = x509.load_pem_x509_certificate(pem)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    assert certificate.subject.rfc4514_string() == "CN=client,O=system:nodes"


def test_the_api_server_is_known_by_all_names_that_pods_use(paper: Cluster) -> None:
    credentials.create(paper, NOW)
    root, served = _load(paper.pki / "ca.crt"), _load(paper.pki / "apiserver.crt")
    for host in ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"):
        _verifier(root, host).verify(served, [])
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(each) for each in names.get_values_for_type(x509.IPAddress)} == {
        "127.0.0.1",
        "10.96.0.1",
        paper.node_address,
    }


def test_only_the_owner_reads_keys_tokens_and_kubeconfigs(paper: Cluster) -> None:
    credentials.create(paper, NOW)
    files = [*paper.pki.iterdir(), paper.kubeconfig]
    assert len(files) > 20
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(paper.pki.stat().st_mode) == 0o700


def test_creating_again_keeps_what_is_there(paper: Cluster) -> None:
    credentials.create(paper, NOW)
    before = {file: file.read_bytes() for file in paper.pki.iterdir()}
    credentials.create(paper, NOW + datetime.timedelta(days=1))
    assert {file: file.read_bytes() for file in paper.pki.iterdir()} == before


def test_two_clusters_have_different_tokens_and_authorities(paper: Cluster, tmp_path: Path) -> None:
    other = Cluster("two", tmp_path / "two", tmp_path / "store", "198.18.0.5", "198.18.0.6")
    other.run.mkdir()
    credentials.create(paper, NOW)
    credentials.create(other, NOW)
    for file in ("tokens.csv", "ca.crt", "service-accounts.pub"):
        assert (paper.pki / file).read_bytes() != (other.pki / file).read_bytes()


def test_a_kubeconfig_can_be_moved_as_it_holds_all_it_needs(paper: Cluster) -> None:
    credentials.create(paper, NOW)
    for path in (paper.kubeconfig, paper.pki / "kube-proxy.kubeconfig"):
        document = yaml.safe_load(path.read_text())
        (cluster,) = document["clusters"]
        assert "certificate-authority-data" in cluster["cluster"]
        assert "insecure-skip-tls-verify" not in cluster["cluster"]
        assert str(paper.run) not in path.read_text()
