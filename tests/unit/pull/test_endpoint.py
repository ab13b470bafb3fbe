"""Which endpoints may be spoken to."""

import ipaddress
import socket

import pytest
from backstay_contract.termination import GaveUp
from backstay_runtime.pull import endpoint, transport
from backstay_runtime.pull.errors import PullError
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "authority"),
    [
        ("http://minio.minio.svc:9000", "minio.minio.svc:9000"),
        ("http://minio.minio.svc:9000/", "minio.minio.svc:9000"),
        ("https://s3.eu-central-1.amazonaws.com", "s3.eu-central-1.amazonaws.com"),
        ("http://storage:80", "storage"),
        ("https://[2001:db8::1]:9000", "[2001:db8::1]:9000"),
    ],
)
def test_an_endpoint_is_scheme_host_and_port(text: str, authority: str) -> None:
    found = endpoint.parse(text)
    assert found.authority == authority
    assert found.secure is text.startswith("https")


@pytest.mark.parametrize(
    "text",
    [
        "file:///etc/passwd",
        "ftp://storage",
        "storage:9000",
        "",
        "http://",
        "http://storage/bucket",
        "http://storage?x=1",
        "http://storage:0",
        "http://storage:99999",
        "http://storage:port",
    ],
)
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="refused"):
        endpoint.parse(text)


def test_keys_in_an_endpoint_are_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="credentials come from the Secret") as caught:
        endpoint.parse("http://admin:hunter2@storage:9000")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.10",
        "::1",
        "169.254.169.254",
        "169.254.1.1",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "100.100.100.200",
        "168.63.129.16",
        "0.0.0.0",
        "::",
        "255.255.255.255",
        "224.0.0.1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
    ],
)
def test_loopback_link_local_and_metadata_addresses_are_refused_in_every_disguise(address: str) -> None:
    assert endpoint.refusal(address) is not None


@pytest.mark.parametrize(
    "address", ["10.96.0.17", "192.168.1.5", "172.16.0.1", "fd12:3456::1", "52.219.0.1", "2600::1"]
)
def test_addresses_of_a_cluster_and_of_the_internet_are_allowed(address: str) -> None:
    assert endpoint.refusal(address) is None


def test_loopback_is_allowed_where_a_developer_says_so_and_metadata_never() -> None:
    assert endpoint.refusal("127.0.0.1", allow_loopback=True) is None
    assert endpoint.refusal("169.254.169.254", allow_loopback=True) is not None


@given(st.ip_addresses(v=4))
def test_no_disguise_makes_a_refused_ipv4_address_allowed(address: ipaddress.IPv4Address) -> None:
    plain = endpoint.refusal(str(address)) is None
    assert (endpoint.refusal(f"::ffff:{address}") is None) == plain
    assert (endpoint.refusal(str(ipaddress.IPv6Address((0x64FF9B << 96) | int(address)))) is None) == plain


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 9000)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


@pytest.mark.case("T33")
def test_a_name_that_resolves_to_a_refused_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "169.254.169.254")
    with pytest.raises(PullError, match="metadata") as caught:
        transport.addresses("storage.example", 9000, allow_loopback=False)
    assert caught.value.termination.reason is GaveUp.ENDPOINT_REFUSED


def test_one_refused_address_among_good_ones_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "10.0.0.7", "127.0.0.1")
    with pytest.raises(PullError):
        transport.addresses("storage.example", 9000, allow_loopback=False)


def test_good_addresses_are_returned_once_each_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "10.0.0.7", "10.0.0.8", "10.0.0.7")
    assert transport.addresses("storage.example", 9000, allow_loopback=False) == ["10.0.0.7", "10.0.0.8"]
