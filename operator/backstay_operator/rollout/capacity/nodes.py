"""Nodes as the pre-check sees them: what they have, what is taken of it, and the hardware that their labels name.

The labels are those of NVIDIA's gpu-feature-discovery. With its MIG strategy `single` they speak of the slices as if
these were GPUs; with `mixed` each kind of slice has labels and a resource of its own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from backstay_contract.profile import Hardware
from backstay_contract.status import Colour

Amounts = Mapping[str, Decimal]
"""Resource name -> cores, bytes or pieces."""

GPU_RESOURCE = "nvidia.com/gpu"
GPU_PRODUCT = f"{GPU_RESOURCE}.product"
"""Node label that names the GPU; serving pods select their nodes by it."""
GPU_COUNT = f"{GPU_RESOURCE}.count"
GPU_MEMORY = f"{GPU_RESOURCE}.memory"
"""MiB of each GPU, whatever NVIDIA's page says of its unit."""
DRIVER = "nvidia.com/cuda.driver-version.full"
DRIVER_PARTS = ("nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev")
"""How releases before 0.15 wrote it."""
CUDA = "nvidia.com/cuda.runtime-version.full"
CUDA_PARTS = ("nvidia.com/cuda.runtime.major", "nvidia.com/cuda.runtime.minor")
_SLICE = re.compile(r"^(nvidia\.com/mig-[0-9a-z.+-]+)\.product$")


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True)
class Node:
    """One node. `held` is the part of `taken` that the resource's own colours have there."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    """Its kubelet reports, and nobody cordoned it."""
    has: Amounts = field(default_factory=dict)
    """Allocatable."""
    taken: Amounts = field(default_factory=dict)
    """What the pods on it ask for, all namespaces; `pods` is how many there are."""
    held: Mapping[Colour, Amounts] = field(default_factory=dict)

    def free(self, resource: str, without: Colour | None = None) -> Decimal:
        """What is left; `without`: as if that colour's pods were gone."""
        given_up = self.held.get(without, {}).get(resource, Decimal(0)) if without else Decimal(0)
        return self.has.get(resource, Decimal(0)) - self.taken.get(resource, Decimal(0)) + given_up


@dataclass(frozen=True)
class Nodes:
    """All nodes of the cluster, where the operator may list them."""

    all: tuple[Node, ...] = ()
    problem: str = ""
    """Why nothing is known of them; empty where they were read."""


def hardware_of(node: Node) -> Hardware | None:
    """The hardware that the node's labels and its device plugin name; None where its GPUs have no name.

    A driver or CUDA version that no label tells is None. GPUs are counted as pods may ask for them.
    """
    product = node.labels.get(GPU_PRODUCT)
    if not product:
        return None if node.has.get(GPU_RESOURCE, Decimal(0)) > 0 else Hardware()
    asked_for = int(node.has.get(GPU_RESOURCE, Decimal(0)))
    return Hardware(
        gpu=product,
        count=min(asked_for, _whole(node.labels.get(GPU_COUNT), asked_for)),
        memory_gi_b=_whole(node.labels.get(GPU_MEMORY), 0) / 1024,
        driver=_version(node.labels, DRIVER, DRIVER_PARTS),
        cuda=_version(node.labels, CUDA, CUDA_PARTS),
    )


def slices_of(node: Node) -> dict[str, str]:
    """MIG slices that have a resource of their own (strategy `mixed`): product name -> resource."""
    found = ((value, _SLICE.match(key)) for key, value in node.labels.items())
    return {product: match[1] for product, match in found if match is not None}


def _version(labels: Mapping[str, str], full: str, parts: tuple[str, ...]) -> str | None:
    if labels.get(full):
        return labels[full]
    known = [labels[part] for part in parts if labels.get(part)]
    return ".".join(known) if labels.get(parts[0]) else None


def _whole(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else otherwise
