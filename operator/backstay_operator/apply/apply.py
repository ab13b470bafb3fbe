"""Every write of a pass to its children, in the order in which a crash between any two leaves a sound state."""

from dataclasses import dataclass

from backstay_contract.reasons import Reason
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import Colour

from backstay_operator.apply import deployments, modes, services
from backstay_operator.client import Client
from backstay_operator.desired import tokens
from backstay_operator.http import Http
from backstay_operator.observe.observe import Seen
from backstay_operator.resource import Resource
from backstay_operator.rollout.decision import Decision, Event


@dataclass(frozen=True)
class Applied:
    """What a pass wrote."""

    changed: bool
    flipped: bool
    events: tuple[Event, ...] = ()
    """To be told beside the decision's own."""
    problems: tuple[str, ...] = ()
    """What the next pass must try again."""


async def apply(
    client: Client,
    http: Http,
    control_key: bytes,
    resource: Resource,
    spec: ModelDeploymentSpec,
    decision: Decision,
    seen: Seen,
) -> Applied:
    """Services, flip, Deployments, preview, modes, of a resource that our finalizer holds.

    The flip comes first: it goes to a colour that is ready already, and nothing that is refused to another object may
    keep the way back shut. What lowers a colour's replicas is decided only on a pass that already saw the flip. Writes
    nothing where everything is as decided.
    """
    owner = resource.owner
    live, wanted = seen.children, decision.flip
    missing = live.active is None or live.preview is None
    record = wanted.record if wanted else None
    active = await services.ensure_active(client, owner, live.active, decision.selector, record)
    events: tuple[Event, ...] = ()
    if wanted is not None:
        await services.flip(client, owner, active, wanted)
    elif await services.restore(client, owner, active, decision.selector):
        found = services.describe(active["spec"].get("selector"))
        events = (_restored(resource, active["metadata"]["resourceVersion"], found, decision.selector),)
    preview = await services.ensure_preview(client, owner, live.preview)
    token = tokens.token(control_key, owner.uid)
    changed = False
    for colour in Colour:
        changed |= await deployments.bring(
            client,
            owner,
            spec,
            colour,
            decision.colours[colour],
            live.deployments.get(colour),
            tokens.hash_of(token),
        )
    changed |= await services.point_preview(client, owner, preview, decision.preview)
    problems = await modes.put(http, token, modes.changes(seen.observation.colours, decision.colours))
    return Applied(
        changed=changed or missing or bool(events) or wanted is not None,
        flipped=wanted is not None,
        events=events,
        problems=tuple(problems),
    )


def _restored(resource: Resource, version: str, found: str, selector: Colour | None) -> Event:
    message = (
        f"Service {resource.owner.name}: its selector {found} was changed by somebody else; put back to {selector}"
    )
    return Event(f"selector.{version}", Reason.SELECTOR_RESTORED, message, warning=True)
