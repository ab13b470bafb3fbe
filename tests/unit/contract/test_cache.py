"""Where pods keep models: the forms that are taken, and the one that the installation must allow."""

from typing import Any

import pytest
from backstay_contract.cache import Cache, CacheKind
from backstay_contract.resource import parse_spec
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError


def spec(**cache: Any) -> dict[str, Any]:
    storage = {"endpoint": "http://minio.minio.svc:9000", "cache": cache}
    return {"model": {"name": "m", "version": "1", "uri": "s3://models/m/1", "sha256": "a" * 64, "storage": storage}}


def test_left_out_each_pod_keeps_its_own() -> None:
    found = parse_spec({"model": spec()["model"] | {"storage": {"endpoint": "http://minio"}}}).model.storage.cache

    assert (found.kind, found.size_bytes) == (CacheKind.POD, None)


@pytest.mark.parametrize(
    "cache", [{"kind": "Claim"}, {"kind": "Pod", "claimName": "x"}, {"kind": "Node", "claimName": "x"}]
)
def test_a_claim_is_named_where_there_is_one_and_nowhere_else(cache: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=r"cache\.claimName"):
        Cache.model_validate(cache)


def test_a_folder_of_the_node_is_refused_where_the_installation_does_not_allow_it() -> None:
    assert parse_spec(spec(kind="Node"), node_cache=True).model.storage.cache.kind is CacheKind.NODE
    with pytest.raises(ValidationError, match=r"nodeCache\.enabled") as caught:
        parse_spec(spec(kind="Node"), node_cache=False)
    assert caught.value.errors()[0]["loc"] == ("model", "storage", "cache")


def test_other_places_need_no_permission() -> None:
    assert (
        parse_spec(spec(kind="Claim", claimName="models"), node_cache=False).model.storage.cache.claim_name == "models"
    )


@given(st.integers(1, 999_999), st.sampled_from([("Mi", 2**20), ("Gi", 2**30), ("Ti", 2**40)]))
def test_a_size_is_a_number_of_bytes(number: int, unit: tuple[str, int]) -> None:
    assert Cache(size=f"{number}{unit[0]}").size_bytes == number * unit[1]


@pytest.mark.parametrize("size", ["0Gi", "10", "1.5Gi", "10GB", "-1Gi", ""])
def test_a_size_without_a_binary_unit_is_refused(size: str) -> None:
    with pytest.raises(ValidationError, match="size"):
        Cache(size=size)
