"""The hardware profile against the nodes' labels, before a pod is made: a wrong profile is no rejection.

The product must be the node's exactly, since pods select their nodes by it. What the labels leave open is found out by
the pod itself, which refuses to serve on other hardware.
"""

from collections.abc import Iterable, Sequence

from backstay_contract.profile import NO_GPU, HardwareProfile, differences
from backstay_contract.reasons import Reason

from backstay_operator.rollout.capacity.nodes import GPU_PRODUCT, Node, hardware_of, slices_of
from backstay_operator.rollout.capacity.shortage import MOST, Shortage, listed


def matching(profile: HardwareProfile, nodes: Sequence[Node]) -> Sequence[Node] | Shortage:
    """The nodes whose hardware is the profile's, or why there is none."""
    if profile.gpu == NO_GPU:
        return nodes
    profile = profile.with_(gpu=profile.gpu.replace(" ", "-"))  # as device plugins write it
    good = [node for node in nodes if _matches(profile, node)]
    if good:
        return good
    unnamed = [node.name for node in nodes if hardware_of(node) is None]
    if unnamed:
        said = f"nodes with GPUs have no label {GPU_PRODUCT} ({listed(unnamed)}): run NVIDIA's gpu-feature-discovery"
        return Shortage(Reason.PROFILE_AMBIGUOUS, f"hardwareProfile.gpu {profile.gpu}: {said}; {_seen(nodes)}")
    told = [*_close(profile, nodes), _seen(nodes)]
    return Shortage(Reason.NO_MATCHING_NODES, f"no node has {profile.count} × {profile.gpu}: {'; '.join(told)}")


def _matches(profile: HardwareProfile, node: Node) -> bool:
    return hardware_of(node) is not None and not _differences(profile, node)


def _differences(profile: HardwareProfile, node: Node) -> list[str]:
    """What the labels tell against the node; what they leave out is no difference."""
    found = hardware_of(node)
    if found is None:
        return []
    asked = profile.with_(
        driver=profile.driver if found.driver is not None else None,
        cuda=profile.cuda if found.cuda is not None else None,
        min_memory_gi_b=profile.min_memory_gi_b if found.memory_gi_b else 0,
    )
    return differences(asked, found)


def _close(profile: HardwareProfile, nodes: Iterable[Node]) -> list[str]:
    """What keeps nodes with the right product from matching, and slices that other pods can ask for."""
    said = []
    for node in nodes:
        found = hardware_of(node)
        if found is not None and found.gpu == profile.gpu:
            said.append(f"{node.name}: {', '.join(_differences(profile, node))}")
        elif profile.gpu in slices_of(node):
            own = slices_of(node)[profile.gpu]
            said.append(f"{node.name}: has it as {own}; pods ask for whole GPUs, so MIG's strategy must be single")
    return said[:MOST] + ([f"and {len(said) - MOST} more"] if len(said) > MOST else [])


def _seen(nodes: Iterable[Node]) -> str:
    """Each product once, with the nodes that have it."""
    by_product: dict[str, list[str]] = {}
    for node in nodes:
        found = hardware_of(node)
        products = ["GPUs without a name"] if found is None else [found.gpu] if found.gpu != NO_GPU else []
        for product in [*products, *slices_of(node)] or ["no GPU"]:
            by_product.setdefault(product, []).append(node.name)
    if not by_product:
        return "there are no nodes"
    return "seen: " + ", ".join(f"{product} ({listed(names)})" for product, names in sorted(by_product.items()))
