import ipaddress
import json
from pathlib import Path

import pytest
from backstay_cluster import cluster
from backstay_cluster.errors import ClusterError
from hypothesis import given
from hypothesis import strategies as st

names = st.from_regex(cluster.NAME, fullmatch=True)


@given(names)
def test_a_name_always_gives_the_same_pair_of_addresses_in_one_subnet_of_four(name: str) -> None:
    host, node = cluster.link_addresses(name)
    assert (host, node) == cluster.link_addresses(name)
    subnet = ipaddress.IPv4Network(f"{host}/30", strict=False)
    assert {ipaddress.ip_address(host), ipaddress.ip_address(node)} == set(subnet.hosts())
    assert subnet.subnet_of(cluster.LINKS)


@given(st.lists(names, min_size=1, max_size=20))
def test_clusters_never_share_an_address_even_when_their_names_collide(chosen: list[str]) -> None:
    taken: set[str] = set()
    for name in [*chosen, *chosen]:  # each name twice: a collision for certain
        pair = cluster.link_addresses(name, taken)
        assert taken.isdisjoint(pair)
        taken.update(pair)


@given(names)
def test_sockets_and_interfaces_stay_below_the_kernels_limits(name: str) -> None:
    made = cluster.Cluster(name, Path("/run/backstay") / name, Path("/store"), "198.18.0.1", "198.18.0.2")
    assert len(f"{made.containerd_socket}.ttrpc") <= 107
    assert len(made.link) <= 15
    assert len(made.node) <= 63


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a_b", "a/b", "..", "a" * 21])
def test_an_impossible_name_is_refused_with_the_possible_ones(name: str) -> None:
    with pytest.raises(ClusterError, match=r"use 1 to 20 of a-z"):
        cluster.checked_name(name)


def test_a_settled_cluster_is_found_again_with_the_same_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTAY_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("BACKSTAY_CACHE", str(tmp_path / "cache"))
    first = cluster.settle("one")
    monkeypatch.setenv("BACKSTAY_CACHE", str(tmp_path / "elsewhere"))
    assert cluster.settle("one") == first == cluster.recorded("one")
    assert first.store == tmp_path / "cache" / "node" / "one"
    assert cluster.existing() == [first]
    assert first.run.stat().st_mode & 0o777 == 0o700


def test_a_half_written_record_counts_as_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTAY_RUN", str(tmp_path))
    cluster.settle("one")
    for content in ('{"store": ', json.dumps({"store": "/x"})):
        (tmp_path / "one" / "cluster.json").write_text(content)
        assert cluster.recorded("one") is None
