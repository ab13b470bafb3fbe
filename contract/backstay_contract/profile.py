"""The hardware that a model was qualified on, and whether some hardware matches it."""

import re
from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from backstay_contract.base import Document

VersionRange = Annotated[str, StringConstraints(pattern=r"^(>=|<=|==|>|<)?\d+(\.\d+){0,3}$")]
"""A version, with or without a comparison: `>=550`, `12.4`. A bare version means exactly that one."""

NO_GPU = "none"
COUNT_RULE = "must be 0 when gpu is none, and at least 1 otherwise"


class HardwareProfile(Document):
    """The hardware that the model was qualified on; a pod on other hardware refuses to serve."""

    gpu: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]{0,62}$")] = NO_GPU
    """Product name of the GPU as NVIDIA's device plugin labels it, e.g. `NVIDIA-H100-80GB-HBM3`; `none` on CPU."""
    count: Annotated[int, Field(ge=0, le=16)] = 0
    """GPUs in one pod; 0 when gpu is `none`."""
    min_memory_gi_b: Annotated[int, Field(ge=0, alias="minMemoryGiB")] = 0
    """Memory of each GPU, in GiB."""
    driver: VersionRange | None = None
    """Driver version that is asked for, for example `>=550`."""
    cuda: VersionRange | None = None
    """CUDA version that is asked for, for example `>=12.4`."""

    @model_validator(mode="after")
    def _count_fits_gpu(self) -> "HardwareProfile":
        if (self.gpu == NO_GPU) != (self.count == 0):
            raise ValueError(f"count: {COUNT_RULE} (gpu is {self.gpu!r}, count is {self.count})")
        return self


class Hardware(Document):
    """Hardware as a pod finds it."""

    gpu: str = NO_GPU
    count: int = 0
    memory_gi_b: Annotated[float, Field(alias="memoryGiB")] = 0
    driver: str | None = None
    cuda: str | None = None


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def version_matches(wanted: str, found: str | None) -> bool:
    """Whether a found version lies in the wanted range. Missing parts count as 0; an unknown version never matches."""
    if found is None or not re.fullmatch(r"\d+(\.\d+)*", found):
        return False
    operator, number = re.fullmatch(r"(>=|<=|==|>|<)?(.*)", wanted).groups()  # type: ignore[union-attr]
    left, right = _parts(found), _parts(number)
    width = max(len(left), len(right))
    left += (0,) * (width - len(left))
    right += (0,) * (width - len(right))
    return {
        ">=": left >= right,
        "<=": left <= right,
        ">": left > right,
        "<": left < right,
    }.get(operator or "==", left == right)


def differences(wanted: HardwareProfile, found: Hardware) -> list[str]:
    """Every way in which the hardware is not the profile's, as sentences; empty when it matches."""
    if wanted.gpu == NO_GPU:
        return []
    said = []
    if _name(found.gpu) != _name(wanted.gpu):
        said.append(f"gpu: the profile asks for {wanted.gpu}, this node has {found.gpu}")
    if found.count < wanted.count:
        said.append(f"count: the profile asks for {wanted.count} GPUs, found {found.count}")
    if found.memory_gi_b < wanted.min_memory_gi_b:
        said.append(f"minMemoryGiB: the profile asks for {wanted.min_memory_gi_b}, the GPU has {found.memory_gi_b:g}")
    for field, want, have in (("driver", wanted.driver, found.driver), ("cuda", wanted.cuda, found.cuda)):
        if want is not None and not version_matches(want, have):
            said.append(f"{field}: the profile asks for {want}, this node has {have or 'none'}")
    return said


def _name(gpu: str) -> str:
    """Device plugins write dashes where the driver writes spaces."""
    return gpu.replace(" ", "-")
