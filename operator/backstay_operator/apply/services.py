"""The two Services: created once; the active one's selector is moved by the flip and by nothing else."""

import json
from typing import Any

from backstay_contract.status import NO_COLOUR, Colour

from backstay_operator import kinds
from backstay_operator.apply import names
from backstay_operator.client import Client
from backstay_operator.desired import flip_record, services
from backstay_operator.desired.common import FLIP, Owner, pod_selector
from backstay_operator.rollout.decision import Flip
from backstay_operator.rollout.observation import FlipRecord

Json = dict[str, Any]


class FlipNotDoneError(Exception):
    """The Service does not select the colour after the flip; the pass must be tried again."""


async def ensure_active(
    client: Client, owner: Owner, active: Json | None, selector: Colour | None, record: FlipRecord | None
) -> Json:
    """The active Service as it is now, created where it was missing.

    One that somebody deleted comes back with the colour it selected: it must not select nothing until the next pass.
    `record` is the flip that this pass is about to make, so that its target is not written beforehand.
    """
    if active is not None:
        return active
    body = services.active(owner)
    if selector is not None and record is None:
        body["spec"]["selector"] = pod_selector(owner, selector)
    return await names.create_service(client, owner, body)


async def ensure_preview(client: Client, owner: Owner, preview: Json | None) -> Json:
    """The preview Service as it is now, created where it was missing."""
    return preview if preview is not None else await names.create_service(client, owner, services.preview(owner))


async def flip(client: Client, owner: Owner, active: Json, wanted: Flip) -> None:
    """The one write that moves the active Service: only from the expected colour, with its record in the same patch.

    The selector is tested and replaced as a whole: one that somebody edited, and that names no colour any more, must
    not keep the way back shut.

    Raises ApiError with `conflict` where the selector is not the expected one any more, FlipNotDoneError where the
    stored object does not select the colour afterwards.
    """
    operations: list[Json] = [
        _still(owner, active, wanted.expected),
        {"op": "add", "path": "/spec/selector", "value": pod_selector(owner, wanted.record.to)},
        _annotate(active, FLIP, flip_record.write(wanted.record)),
    ]
    stored = await client.json_patch(kinds.SERVICE, owner.namespace, owner.name, operations)
    if services.selected(stored) is not wanted.record.to:
        raise FlipNotDoneError(f"Service {owner.name}: selects {services.selected(stored)} after the flip")


def _still(owner: Owner, active: Json, expected: Colour | None) -> Json:
    """The test that the Service still selects what the decision was made on."""
    present = active["spec"].get("selector")
    if services.selected(active) is not expected:
        present = pod_selector(owner, expected or NO_COLOUR)
    if present is None:
        return {"op": "test", "path": "/metadata/resourceVersion", "value": active["metadata"]["resourceVersion"]}
    return {"op": "test", "path": "/spec/selector", "value": present}


async def restore(client: Client, owner: Owner, active: Json, selector: Colour | None) -> bool:
    """Puts a selector back that somebody else changed; False where it is as it should be."""
    present = active["spec"].get("selector")
    wanted = pod_selector(owner, selector or NO_COLOUR)
    if present == wanted:
        return False
    operations: list[Json] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": active["metadata"]["resourceVersion"]},
        {"op": "add", "path": "/spec/selector", "value": wanted},
    ]
    await client.json_patch(kinds.SERVICE, owner.namespace, owner.name, operations)
    return True


async def point_preview(client: Client, owner: Owner, preview: Json, colour: Colour | None) -> bool:
    """The preview Service selects the candidate, or nothing; False where it did so before."""
    wanted = pod_selector(owner, colour or NO_COLOUR)
    if preview["spec"].get("selector") == wanted:
        return False
    operations: list[Json] = [{"op": "add", "path": "/spec/selector", "value": wanted}]
    name = preview["metadata"]["name"]
    await client.json_patch(kinds.SERVICE, owner.namespace, name, operations)
    return True


def _annotate(body: Json, name: str, value: str) -> Json:
    if body["metadata"].get("annotations"):
        return {"op": "add", "path": f"/metadata/annotations/{_escaped(name)}", "value": value}
    return {"op": "add", "path": "/metadata/annotations", "value": {name: value}}


def _escaped(key: str) -> str:
    """A key as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def describe(selector: Json | None) -> str:
    """A selector as a message shows it."""
    return json.dumps(selector or {}, sort_keys=True)[:200]
