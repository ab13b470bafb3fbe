"""What is checked before a weight byte is asked for."""

import pytest
from backstay_contract import manifest as manifests
from backstay_contract.manifest import MAX_BYTES
from backstay_contract.profile import HardwareProfile
from backstay_contract.termination import GaveUp, Termination
from backstay_runtime.pull.checks import check_manifest, check_profile
from backstay_runtime.pull.errors import PullError

from .fakes import manifest_bytes

H100 = HardwareProfile(gpu="NVIDIA-H100-80GB-HBM3", count=2, min_memory_gi_b=70, driver=">=550")


def given_up(caught: pytest.ExceptionInfo[PullError]) -> Termination:
    return caught.value.termination


def test_a_manifest_with_the_pinned_digest_is_read() -> None:
    data = manifest_bytes()
    assert check_manifest(data, manifests.digest_of(data)).name == "m"


def test_a_manifest_with_another_digest_is_a_mismatch_that_names_both() -> None:
    data = manifest_bytes()
    wanted = f"sha256:{'0' * 64}"
    with pytest.raises(PullError) as caught:
        check_manifest(data, wanted)
    assert given_up(caught).reason is GaveUp.DIGEST_MISMATCH
    assert (given_up(caught).expected, given_up(caught).actual) == (wanted, manifests.digest_of(data))


def test_a_pinned_document_that_is_no_manifest_is_invalid() -> None:
    with pytest.raises(PullError, match="files") as caught:
        check_manifest(b'{"name": "m"}', manifests.digest_of(b'{"name": "m"}'))
    assert given_up(caught).reason is GaveUp.MANIFEST_INVALID


def test_a_huge_manifest_is_refused_before_it_is_parsed() -> None:
    data = b" " * (MAX_BYTES + 1)
    with pytest.raises(PullError, match=str(MAX_BYTES)) as caught:
        check_manifest(data, manifests.digest_of(data))
    assert given_up(caught).reason is GaveUp.MANIFEST_INVALID


@pytest.mark.parametrize(
    "asked",
    [
        H100,
        H100.with_(gpu="NVIDIA H100 80GB HBM3"),
        H100.with_(driver=None, min_memory_gi_b=0),
        H100.with_(min_memory_gi_b=80),
        None,
    ],
)
def test_the_qualified_hardware_may_be_asked_for(asked: HardwareProfile | None) -> None:
    check_profile(asked, H100)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (HardwareProfile(), "gpu"),
        (H100.with_(gpu="NVIDIA-A100-SXM4-80GB"), "gpu"),
        (H100.with_(count=1), "count"),
        (H100.with_(min_memory_gi_b=40), "minMemoryGiB"),
        (H100.with_(driver=">=535"), "driver"),
        (H100.with_(cuda=">=12.4"), "cuda"),
    ],
)
def test_other_hardware_than_the_qualified_is_a_mismatch_that_names_the_field(
    asked: HardwareProfile, field: str
) -> None:
    with pytest.raises(PullError, match=field) as caught:
        check_profile(asked, H100)
    assert given_up(caught).reason is GaveUp.HARDWARE_MISMATCH
