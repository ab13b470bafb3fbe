"""Certificate authorities and what they issue."""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=365)
_SKEW = datetime.timedelta(hours=1)
"""Certificates are valid a little before now: pods' and machine's clocks may differ."""


@dataclass(frozen=True)
class Authority:
    """A certificate authority. Elliptic keys: made in a millisecond, where RSA takes a tenth of a second each."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def authority(name: str, now: datetime.datetime) -> Authority:
    """A new self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)  # signing, certificates, CRLs
    certificate = (
        _builder(subject, subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(key, certificate)


def issue(
    issuer: Authority,
    common_name: str,
    now: datetime.datetime,
    *,
    group: str | None = None,
    hosts: Sequence[str] = (),
) -> tuple[bytes, bytes]:
    """PEM of certificate and key. With `hosts` (names or addresses) it may serve; it may always be a client.
    Kubernetes reads the common name as the user and the organisation as its group."""
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])
    builder = (
        _builder(_subject(common_name, group), issuer.certificate.subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()), critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    certificate = builder.sign(issuer.key, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM), _private(key)


def pem(certificate: x509.Certificate) -> bytes:
    """The certificate as files hold it."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def signing_keys() -> tuple[bytes, bytes]:
    """PEM of a new private and public key for service-account tokens; RSA, as all token libraries know RS256."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _private(key), public


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, at no moment wider."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(common_name: str, group: str | None = None) -> x509.Name:
    organisation = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*organisation, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
