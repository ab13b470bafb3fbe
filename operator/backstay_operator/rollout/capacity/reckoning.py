"""Whether the nodes have room for a candidate, reckoned before anything is made.

A candidate's pods are all alike, so how many fit is the sum of how many fit on each node: trying them in any order on
the first node that takes them gives the same. What only the scheduler knows (volumes, priorities, other schedulers) is
left to it: pods that are made and find no node are waited for in its own words.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from backstay_contract import quantity
from backstay_contract.profile import NO_GPU, HardwareProfile
from backstay_contract.reasons import Reason
from backstay_contract.serving import Serving, Toleration
from backstay_contract.status import Colour, Recipe

from backstay_operator.rollout.capacity import hardware
from backstay_operator.rollout.capacity.nodes import GPU_RESOURCE, Amounts, Node, Taint
from backstay_operator.rollout.capacity.shortage import MOST, Shortage

PODS = "pods"
REPELS = ("NoSchedule", "NoExecute")
GPU_TOLERATION = Toleration(key=GPU_RESOURCE, operator="Exists", effect="NoSchedule")
"""Every pod that asks for a GPU bears the taint of nodes that have some."""


def need(recipe: Recipe) -> Amounts:
    """What the scheduler keeps free for one pod. Where only a limit is given, it is the request too."""
    asked = recipe.serving.resources
    texts = {**asked.limits, **asked.requests}
    amounts = {str(name): quantity.parse(text) for name, text in texts.items()}
    if recipe.hardware_profile.gpu != NO_GPU:
        amounts[GPU_RESOURCE] = Decimal(recipe.hardware_profile.count)
    return {name: amount for name, amount in amounts.items() if amount > 0} | {PODS: Decimal(1)}


def shortage(recipe: Recipe, pods: int, nodes: Sequence[Node], gives_way: Colour | None = None) -> Shortage | None:
    """Why that many pods do not fit; None where they do. `gives_way`: the colour that goes down for them."""
    right = hardware.matching(recipe.hardware_profile, nodes)
    if isinstance(right, Shortage):
        return right
    asked = need(recipe)
    closed = {node.name: said for node in right if (said := closed_because(node, recipe))}
    room = [(fits(node, asked, gives_way), node) for node in right if node.name not in closed]
    if sum(count for count, _ in room) >= pods:
        return None
    said = f"need={pods} × ({_shown(asked)}) free={_free(room, asked, gives_way)}"
    return Shortage(Reason.INSUFFICIENT_CAPACITY, said + _closed(closed))


def fits(node: Node, asked: Amounts, gives_way: Colour | None = None) -> int:
    """How many such pods the node has room for."""
    return max(0, min(int(node.free(name, gives_way) // amount) for name, amount in asked.items()))


def closed_because(node: Node, recipe: Recipe) -> str:
    """Why the node takes none of these pods whatever room it has; empty where it would."""
    if not node.ready:
        return "not ready, or cordoned"
    lacking = [f"{k}={v}" for k, v in sorted(recipe.serving.node_selector.items()) if node.labels.get(k) != v]
    if lacking:
        return f"lacks the label {', '.join(lacking)}"
    borne = tolerations(recipe.serving, recipe.hardware_profile)
    repels = [str(taint) for taint in node.taints if taint.effect in REPELS and not bears(borne, taint)]
    return f"has the taint {', '.join(repels)}" if repels else ""


def tolerations(serving: Serving, profile: HardwareProfile) -> tuple[Toleration, ...]:
    """What a pod bears."""
    return serving.tolerations + ((GPU_TOLERATION,) if profile.gpu != NO_GPU else ())


def bears(borne: Iterable[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations is for the taint, as the scheduler compares them."""
    return any(
        (one.effect is None or one.effect == taint.effect)
        and (one.key is None or one.key == taint.key)
        and (one.operator == "Exists" or (one.value or "") == taint.value)
        for one in borne
    )


def _free(room: Sequence[tuple[int, Node]], asked: Amounts, gives_way: Colour | None) -> str:
    """What is left on the nodes that would take a pod, the fullest of room first."""
    if not room:
        return "no node is open to these pods"
    best = sorted(room, key=lambda one: (-one[0], one[1].name))[:MOST]
    shown = [f"{node.name}: {_shown({n: node.free(n, gives_way) for n in asked})}" for _, node in best]
    more = f" and {len(room) - MOST} more" if len(room) > MOST else ""
    return f"room for {sum(count for count, _ in room)} ({'; '.join(shown)}{more})"


def _closed(closed: Mapping[str, str]) -> str:
    shown = [f"; {name} {said}" for name, said in sorted(closed.items())[:MOST]]
    return "".join(shown) + (f" and {len(closed) - MOST} more" if len(closed) > MOST else "")


def _shown(amounts: Amounts) -> str:
    return ", ".join(f"{name} {quantity.show(amount)}" for name, amount in sorted(amounts.items()))
